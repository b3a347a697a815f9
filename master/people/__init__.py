"""The identity of users, and the record of their actions: the parts that touch a disk or take long. They know no verbs
and no ports."""

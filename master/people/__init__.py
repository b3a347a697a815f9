"""Who people are to the master, and what they did: the parts that touch a disk or take long. They know no verbs and no
ports."""

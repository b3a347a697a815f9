"""The verbs, one file a noun, a line each. What the lines say, and how the files are found, is told in
`master.verbs.table`."""

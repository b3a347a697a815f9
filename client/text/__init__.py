"""Text for people: columns, cells, tables, colours, quantities, and the lines about nodes and tasks. Knows no terminal
and calls no master."""

"""What makes text of things: columns, cells, tables, colours, quantities, and what is told of nodes and tasks. Knows no
terminal and asks nobody."""

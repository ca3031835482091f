"""Pure rules: which moves there are, what speaks against one, what comes next. No I/O, no clock."""

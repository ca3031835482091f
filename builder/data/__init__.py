"""Data sets as a build reads them: rows, recorded pairs, inputs made of them, answers to them."""

"""Pictures one can operate, one module per picture; each has `draw(...)`, which returns a `Figure`."""

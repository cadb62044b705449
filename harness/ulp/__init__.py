"""An elementwise op over every input that there is, on a backend, against goldens that are exact."""

"""What a program sets: number formats, fidelities, kinds of devices, compile options, breaks and sizes of ops."""

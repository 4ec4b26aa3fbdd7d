"""Stand-ins for other packages: same names, same arguments, this library underneath."""

"""Bridges to other libraries. Each is a module of its own that needs that library; none is imported with omegamax."""

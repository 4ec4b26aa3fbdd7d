"""Visual question answering: trained, measured, and looked at."""

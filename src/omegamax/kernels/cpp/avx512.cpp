// The library of the row maps and the contour integral, built for AVX-512; pyproject.toml gives the flags.
// Each build has a source of its own: objects are named after their sources, and the builds run side by side.
#include "../contour/cpp/contour.h"
#include "../rows/cpp/rows.h"

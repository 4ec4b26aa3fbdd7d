// The library of the row maps, the maps with bounds, isotonic fits, the contour integral, the mixtures and the bounds of
// pages, built for AVX2; pyproject.toml gives the flags.
// Each build has a source of its own: objects are named after their sources, and the builds run side by side.
#include "../attention/cpp/page_bounds.h"
#include "../bounds/cpp/bounds.h"
#include "../contour/cpp/contour.h"
#include "../isotonic/cpp/oscar.h"
#include "../mixtures/cpp/em.h"
#include "../rows/cpp/rows.h"

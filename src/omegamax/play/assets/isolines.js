// Lines of equal value of <p, z> - Omega(p) over the triangle: the map sends z to their summit.

const LATTICE = 72, RINGS = 7;

// Values at the points of a lattice over the plane; none outside the domain.
function objectiveValues(map, side, u, total) {
  const centre = total / 3;
  return range(LATTICE + 1).map((r) => range(LATTICE + 1).map((c) => {
    const p = scoresOf([(c / LATTICE - 0.5) * SPAN, (0.5 - r / LATTICE) * SPAN]).map((x) => x + centre);
    const low = map.lower?.(side) ?? 0, high = map.upper?.(side) ?? 1;
    return p.every((x) => x >= low - 1e-12 && x <= high + 1e-12) ? dot(p, u) - map.omega(p.map((x) => Math.max(x, 0)), side) : NaN;
  }));
}

// Marching squares: where a level passes the sides of each cell, as one path. Closer together near the summit.
function isolines(map, side, u, total, width) {
  if (map.conjugate || side.at_most) return ""; // a value that is no function of p alone, or a sum that is not fixed
  const values = objectiveValues(map, side, u, total), known = values.flat().filter((v) => !Number.isNaN(v));
  if (!known.length) return ""; // bounds that leave less than a cell
  const most = maximum(known), least = minimum(known), step = width / LATTICE, pieces = [];
  for (let ring = 1; ring <= RINGS; ring++) {
    const level = most - (most - least) * (ring / (RINGS + 1)) ** 2;
    for (let r = 0; r < LATTICE; r++) {
      for (let c = 0; c < LATTICE; c++) {
        const corners = [[c, r], [c + 1, r], [c + 1, r + 1], [c, r + 1]], at = corners.map(([x, y]) => values[y][x] - level);
        if (at.some(Number.isNaN)) continue;
        const cuts = range(4).flatMap((k) => {
          const next = (k + 1) % 4;
          if (at[k] < 0 === at[next] < 0) return [];
          const share = at[k] / (at[k] - at[next]);
          return [[0, 1].map((a) => ((corners[k][a] + share * (corners[next][a] - corners[k][a])) * step).toFixed(1))];
        });
        for (let k = 0; k + 1 < cuts.length; k += 2) pieces.push(`M${cuts[k].join(" ")}L${cuts[k + 1].join(" ")}`);
      }
    }
  }
  return pieces.join("");
}

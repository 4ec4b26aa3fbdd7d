// OSCAR's penalty on the larger of every pair: clusters of equal values, by isotonic regression.

// argmin_w 1/2 |w - x|^2 + strength * sum over pairs max(w_i, w_j): sorted, the largest pays for all pairs it leads.
function smoothOnPairs(x, strength) {
  const order = range(x.length).sort((i, j) => x[j] - x[i]), pools = [];
  order.forEach((i, rank) => {
    let pool = { total: x[i] - strength * (x.length - 1 - rank), nodes: [i] };
    // Pool adjacent violators: a value that would pass the one before it joins it.
    while (pools.length && level(pools.at(-1)) <= level(pool)) {
      const before = pools.pop();
      pool = { total: before.total + pool.total, nodes: [...before.nodes, ...pool.nodes] };
    }
    pools.push(pool);
  });
  const value = zeros(x.length);
  for (const pool of pools) for (const i of pool.nodes) value[i] = level(pool);
  return { value, blocks: pools.map((pool) => pool.nodes) };
}

const level = ({ total, nodes }) => total / nodes.length;

function largerOfPairs(p) {
  const sorted = [...p].sort((a, b) => b - a);
  return sum(sorted.map((x, rank) => x * (p.length - 1 - rank)));
}

// The mean over each block.
function poolJacobian(n, blocks) {
  const block = zeros(n);
  blocks.forEach((nodes, b) => nodes.forEach((i) => { block[i] = b; }));
  return matrix(n, (i, j) => (block[i] === block[j] ? 1 / blocks[block[i]].length : 0));
}

// How numbers read.
const NOT_TOLD = "not told";
const LITTLE_BYTES = 256 * 1024 * 1024;
const isTold = (value) => value !== null && value !== undefined;
const told = (value) => (isTold(value) ? String(value) : NOT_TOLD);

function span(ms) {
  if (!isTold(ms)) return NOT_TOLD;
  const s = ms / 1000;
  if (ms > 0 && ms < 0.05) return "< 0.1 ms";
  if (s < 1) return `${ms < 10 && ms % 1 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} days`;
}

function bytes(count) {
  if (!isTold(count)) return NOT_TOLD;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${value < 10 && unit ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const list = (ids) => (ids && ids.length ? ids.join(", ") : "none");

// A moment: the clock of a real run, or the seconds since a simulated one began.
function moment(ms, isVirtual) {
  if (isVirtual) return `${(ms / 1000).toFixed(3)} s`;
  const at = new Date(ms);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? at.toLocaleTimeString() : at.toLocaleString();
}

// Whether the page shows the present.  The newest answer of a node decides: the stream goes on while no node answers.
const STALE_MS = 6000;
function liveness({ board, heardAtMs, isOpen }, nowMs) {
  if (!heardAtMs) return { isLost: false, text: isOpen ? "Asking the nodes …" : "Not connected" };
  const sinceMs = nowMs - heardAtMs;
  if (!isOpen || sinceMs > STALE_MS) return { isLost: true, text: `No news for ${Math.round(sinceMs / 1000)} s: what follows is older` };
  const ages = board.claims.filter((claim) => isTold(claim.ageMs)).map((claim) => claim.ageMs + sinceMs);
  if (!ages.length) return { isLost: true, text: "No node has answered yet" };
  const newestMs = Math.min(...ages);
  if (newestMs > STALE_MS) return { isLost: true, text: `No node has answered for ${Math.round(newestMs / 1000)} s: what follows is older` };
  const fresh = ages.filter((ageMs) => ageMs <= STALE_MS).length;
  return { isLost: false, text: fresh === board.claims.length ? "Live" : `Live: ${fresh} of ${count(board.claims.length, "node")} answer` };
}

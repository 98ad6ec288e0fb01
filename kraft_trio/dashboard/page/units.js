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

// Reads the server's stream, and the traces that are dropped; keeps the theme.

const live = { board: null, events: [], heardAtMs: 0, isOpen: false };
let replay = null; // {run, index, explained, asked}

function showLive() {
  if (replay || !live.board) return;
  show(live.board, live.events, false, "");
  const { source, clusterId } = live.board;
  const who = source.kind === "node" ? `as node ${source.nodeId} sees it` : `asked from ${source.bootstrap.replaceAll(",", ", ")}`;
  setText(byId("source"), `Cluster ${clusterId ?? "of unknown id"}, ${who}`);
}

function showConnection() {
  const { isLost, text } = liveness(live, Date.now());
  setClass(byId("live"), isLost ? "live lost" : "live");
  setText(byId("live"), text);
}

function listen() {
  const source = new EventSource("v1/stream");
  source.onopen = () => { live.isOpen = true; live.events = []; showConnection(); };
  source.onerror = () => {
    live.isOpen = false;
    showConnection();
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
  source.addEventListener("board", (message) => {
    live.board = JSON.parse(message.data);
    live.heardAtMs = Date.now();
    showLive();
    showConnection();
  });
  source.addEventListener("history", (message) => {
    live.events = [...live.events, ...JSON.parse(message.data)].slice(-600);
    showLive();
  });
}

// The findings of a recorded moment come from the same rules as those of the live quorum: the server's.
async function explain(state, index) {
  const answer = await fetch("v1/explain", {
    method: "POST", body: JSON.stringify(state.run.situationAt(index)), headers: { "content-type": "application/json" },
  });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

// Show the moment that was explained.  The slider may be further by now.
function showReplay(index, placeholder) {
  const { run, explained } = replay;
  const atMs = run.atMs(index);
  const events = run.events.filter((event) => event.atMs <= atMs);
  show(run.boardAt(index, explained), events, run.isVirtual, placeholder ?? "…");
  const slider = byId("moment");
  const place = run.keys.indexOf(index);
  if (replay.index === index) slider.value = String(place);
  const when = `${moment(atMs, run.isVirtual)} (${place + 1} of ${run.keys.length})`;
  setText(byId("moment-time"), when);
  slider.setAttribute("aria-valuetext", when);
  byId("earlier").disabled = place === 0;
  byId("later").disabled = place === run.keys.length - 1;
  const last = events[events.length - 1];
  const who = last && last.node !== null ? `Node ${last.node} ` : "";
  setText(byId("moment-event"), last ? `Newest event: ${who}${describe(last)}` : "");
}

async function moveTo(place) {
  const state = replay;
  state.index = state.run.keys[Math.min(Math.max(place, 0), state.run.keys.length - 1)];
  const { index } = state;
  if (state.asking) { state.again = true; return; }
  state.asking = true;
  try {
    state.explained = await explain(state, index);
    if (replay === state) showReplay(index);
  } catch (error) {
    state.explained = null;
    if (replay === state) showReplay(index, `Findings come from the server, which does not give them now: ${error.message}`);
  } finally {
    state.asking = false;
    if (state.again) { state.again = false; moveTo(state.run.keys.indexOf(state.index)); }
  }
}

async function open(files) {
  byId("replay").hidden = false;
  setText(byId("replay-problem"), "");
  try {
    const read = await Promise.all([...files].map(async (file) => ({ name: file.name, buffer: await file.arrayBuffer() })));
    const run = new Replay(read);
    replay = { run, index: 0, explained: null, asking: false, again: false };
    setText(byId("replay-name"), `Replay of ${run.name}: ${run.about}, ${count(run.records.length, "event")}`);
    setText(byId("source"), "A recorded run, not the live quorum");
    byId("replay-controls").hidden = false;
    byId("moment").max = String(run.keys.length - 1);
    await moveTo(run.keys.length - 1);
    byId("moment").focus();
  } catch (error) {
    setText(byId("replay-problem"), `This cannot be replayed. ${error.message}`);
    if (!replay) {
      setText(byId("replay-name"), "");
      byId("replay-controls").hidden = true;
    }
  }
}

function leave() {
  replay = null;
  byId("replay").hidden = true;
  byId("file").value = "";
  showLive();
}

byId("file").addEventListener("change", (event) => { if (event.target.files.length) open(event.target.files); });
byId("moment").addEventListener("input", (event) => moveTo(Number(event.target.value)));
byId("earlier").addEventListener("click", () => moveTo(replay.run.keys.indexOf(replay.index) - 1));
byId("later").addEventListener("click", () => moveTo(replay.run.keys.indexOf(replay.index) + 1));
byId("leave").addEventListener("click", leave);
addEventListener("dragover", (event) => { event.preventDefault(); byId("drop").hidden = false; });
addEventListener("dragleave", (event) => { if (!event.relatedTarget) byId("drop").hidden = true; });
addEventListener("drop", (event) => {
  event.preventDefault();
  byId("drop").hidden = true;
  if (event.dataTransfer.files.length) open(event.dataTransfer.files);
});

const THEMES = ["auto", "light", "dark"];
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(byId("theme"), `Theme: ${theme}`);
  try { localStorage.setItem("theme", theme); } catch { /* a browser that keeps nothing */ }
}
byId("theme").addEventListener("click", () => {
  setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % THEMES.length]);
});
try {
  const kept = localStorage.getItem("theme");
  if (THEMES.includes(kept)) setTheme(kept);
} catch { /* the same */ }

listen();
setInterval(showConnection, 1000);

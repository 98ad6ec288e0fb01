// Shows a board.  The same for a live quorum and for a moment of a recorded run.

const EVIDENCE = {
  "voter-behind": "voters", survival: "voters", "survival-before": "change", "little-room": "voters", "no-majority": "claims",
  "two-leaders": "claims", "shared-id": "claims", "uncommitted-voters": "claims", clusters: "claims", "other-epoch": "claims", "other-directory": "voters", removed: "claims",
  observers: "claims", "not-reached": "claims", "no-commit": "voters", "pending-change": "change", reassignment: "change",
  "leader-not-reached": "epochs", "still-following": "claims", refused: "epochs", "no-leader": "epochs", "no-answer": "claims", denied: "claims", login: "claims", tls: "claims", certificate: "voters",
  "brokers-fenced": "observers", "stale-broker": "observers", "not-registered": "observers", "retired-controller": "observers",
};
const SECTIONS = { voters: "voters", change: "voter change", claims: "claims", epochs: "epochs", observers: "observers" };
const RANK = ["ok", "note", "warning", "critical"];
const SOON_MS = 30 * 86400 * 1000;

function showVerdict(board) {
  const worst = board.findings?.length ? board.findings[0].severity : "unknown";
  const [survival] = board.survival;
  setClass(byId("verdict"), `verdict ${worst === "note" ? "ok" : worst}`);
  let headline = "Nobody tells who leads";
  if (isTold(board.leaderId)) headline = `Node ${board.leaderId} leads epoch ${board.epoch}`;
  else if (isTold(board.epoch)) headline = `No leader in epoch ${board.epoch}`;
  const answersAsLeader = board.voters.some((voter) => voter.isLeader && voter.health !== null);
  if (isTold(board.leaderId) && !answersAsLeader) headline = `Node ${board.leaderId} is named as leader of epoch ${board.epoch}`;
  setText(byId("headline"), headline);
  let text = "";
  if (survival) {
    text = survival.spare > 0 ? `Survives ${count(survival.spare, "more failure")} now`
      : survival.spare === 0 ? "Survives no more failure now" : "Has no majority: nothing can be committed";
  }
  setText(byId("survival"), text);
  setText(byId("survival-counts"), survival
    ? `${survival.up.length} of ${count(survival.voters.length, "voter")} up; ${survival.majority} needed` : "");
  const health = new Map(board.voters.map((voter) => [voter.id, voter]));
  fill(byId("dots"), survival?.voters ?? [], () => {
    const item = make("li");
    item.append(make("b"), make("span"));
    return item;
  }, (item, id) => {
    const isUp = survival.up.includes(id);
    const voter = health.get(id);
    const word = isUp ? (voter?.isLeader ? "leader" : "up") : voter?.health === "lagging" ? "lagging" : "down";
    setClass(item, isUp ? "up" : word);
    setText(item.firstElementChild, String(id));
    setText(item.lastElementChild, word);
  });
}

function copyOf(code) {
  const button = make("button", "Copy");
  button.type = "button";
  button.addEventListener("click", async () => {
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch { // without a secure context, the browser leaves it to the reader
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      said = "Selected";
    }
    setText(button, said);
    setTimeout(() => setText(button, "Copy"), 2000);
  });
  return button;
}

function showFindings(findings, placeholder) {
  const shown = findings ?? [];
  byId("findings-none").hidden = shown.length > 0;
  setText(byId("findings-none"), findings ? "Nothing is wrong." : placeholder);
  fill(byId("findings"), shown, () => {
    const item = make("li");
    const title = make("p");
    title.append(make("b"), make("a"));
    const command = make("div", undefined, "command");
    const code = make("code");
    command.append(code, copyOf(code));
    item.append(title, make("p"), command);
    return item;
  }, (item, finding) => {
    const [title, text, command] = item.children;
    setClass(item, finding.severity);
    setText(title.firstElementChild, finding.severity);
    const place = EVIDENCE[finding.code] ?? "claims";
    setText(title.lastElementChild, `See the ${SECTIONS[place]}`);
    title.lastElementChild.setAttribute("href", `#${place}`);
    item.dataset.code = finding.code;
    setMarked(text, finding.text);
    command.hidden = !finding.command;
    setText(command.firstElementChild, finding.command ?? "");
    command.lastElementChild.setAttribute("aria-label", `Copy the command for: ${finding.code}`);
  });
}

function showChange(board) {
  const { change } = board;
  byId("change").hidden = !change;
  if (!change) return;
  setText(byId("change-status"), change.status ? `Reassignment: ${change.status}`
    : "The newest voter set is in force, but not committed. Until it commits, it may still be undone.");
  const sets = [["In force now", board.survival[0], change.now]];
  if (change.before) sets.push(["Before, and again if the change is undone", board.survival[1], change.before]);
  if (change.target) sets.push(["Target of the reassignment", null, change.target]);
  fill(byId("sets"), sets, () => {
    const item = make("li");
    item.append(make("b"), make("p"), make("p", undefined, "soft"));
    return item;
  }, (item, [title, survival, ids]) => {
    setText(item.children[0], title);
    setText(item.children[1], `Voters ${list(ids)}`);
    setText(item.children[2], !survival ? "" : `${survival.up.length} up, ${survival.majority} needed: ` +
      (survival.spare < 0 ? "cannot commit" : `survives ${count(survival.spare, "more failure")} now`));
  });
}

const cell = (value, className) => ({ text: told(value), className: isTold(value) ? className : "untold" });

function claimRow(claim, isReplay) {
  const wrong = (name) => (claim.contradicts.includes(name) ? "wrong" : "");
  const marked = (value, name) => {
    const made = cell(value, wrong(name));
    return made.className === "wrong" ? { ...made, text: `≠ ${made.text}` } : made;
  };
  const name = isTold(claim.nodeId) ? `Node ${claim.nodeId}` : claim.endpoint;
  if (claim.problem !== null) {
    const before = claim.last ?? {};
    const old = (value) => ({ text: isTold(value) ? `${value} (before)` : NOT_TOLD, className: "old" });
    return { className: "silent", cells: [{ text: name }, { text: claim.problem, className: "bad" }, old(before.epoch),
      old(before.leaderId), old(before.voters ? list(before.voters) : null), { text: NOT_TOLD, className: "untold" },
      { text: NOT_TOLD, className: "untold" }, isReplay ? { text: "–" }
        : { text: isTold(claim.ageMs) ? `${span(claim.ageMs)} ago` : "never", className: "bad" },
      { text: claim.endpoint || "–" }] };
  }
  const leader = claim.leaderId === null && claim.epoch !== null ? "none" : claim.leaderId;
  const byLeader = (value) => (isTold(value) ? `${value} (says the leader)` : null);
  const end = claim.logEnd === null ? byLeader(claim.reportedEnd) : `${claim.logEnd.offset} in epoch ${claim.logEnd.epoch}`;
  const kinds = [claim.isWitness ? "witness" : null, claim.role ? claim.role.toLowerCase() : null].filter(isTold);
  const role = claim.deniedTo ? { text: `denies DESCRIBE to ${claim.deniedTo}`, className: "bad" }
    : cell(kinds.length ? kinds.join(", ") : null);
  return { cells: [{ text: name }, role, marked(claim.epoch, "epoch"),
    marked(leader, "leader"), marked(claim.voters === null ? null : list(claim.voters), "voters"), cell(end),
    cell(claim.highWatermark ?? byLeader(claim.reportedHighWatermark)), { text: isTold(claim.ageMs) ? (claim.ageMs < 3000 ? "now" : `${span(claim.ageMs)} ago`) : "–" },
    { text: claim.endpoint || "–" }] };
}

function voterRow(voter, atMs, isReplay) {
  const { vitals } = voter;
  const isOld = voter.isSilent && isTold(voter.ageMs);
  const aged = (value, text, isBad) => {
    if (!isTold(value)) return { text: isReplay ? "–" : NOT_TOLD, className: "untold" };
    return { text: isOld ? `${text} (${span(voter.ageMs)} ago)` : text, className: isBad ? "bad" : isOld ? "old" : "" };
  };
  const expires = isTold(vitals.certificateExpiresMs) ? vitals.certificateExpiresMs - atMs : null;
  const state = voter.health === null ? (voter.isSilent ? "silent" : "answers") : voter.isLeader ? "leader" : voter.health;
  const isDown = voter.health === "offline" || (voter.health === null && voter.isSilent);
  return { className: isDown ? "silent" : "", cells: [
    { text: `Voter ${voter.id}` },
    { text: state, className: isDown ? "bad" : voter.health === "lagging" ? "poor" : "" },
    cell(voter.lag, voter.health === "lagging" ? "poor" : ""),
    { text: voter.isLeader ? "leads" : isTold(voter.lastContactMs) ? `${span(voter.lastContactMs)} ago` : NOT_TOLD,
      className: voter.isLeader ? "" : isTold(voter.lastContactMs) ? (isDown ? "bad" : "") : "untold" },
    aged(vitals.syncP99Ms, span(vitals.syncP99Ms)),
    aged(vitals.freeBytes, bytes(vitals.freeBytes), isTold(vitals.freeBytes) && vitals.freeBytes < LITTLE_BYTES),
    vitals.snapshots === 0 ? { text: "none yet", className: "untold" } : aged(vitals.snapshotAgeMs, span(vitals.snapshotAgeMs)),
    "certificateExpiresMs" in vitals && expires === null ? { text: "none", className: "untold" } : aged(expires, isTold(expires) ? (expires < 0 ? "expired" : `in ${span(expires)}`) : "", isTold(expires) && expires < SOON_MS),
    cell(voter.logEndOffset),
  ] };
}

function showTables(board) {
  const isReplay = board.source.kind === "replay";
  fillTable(byId("claims-table"), ["Node", "Role", "Epoch", "Leader", "Voters", "Log end", "High watermark", "Last answer",
    "Endpoint"], board.claims.map((claim) => claimRow(claim, isReplay)));
  fillTable(byId("voters-table"), ["Voter", "State", "Lag", "Last contact", "Fsync p99", "Disk left", "Snapshot age",
    "Certificate expires", "Log end"], board.voters.map((voter) => voterRow(voter, board.atMs, isReplay)));
  byId("voters-table").hidden = !board.voters.length;
  setText(byId("voters-note"), board.voters.length
    ? "Lag, contact and log end come from the leader; the rest from each node itself. Controllers of Apache Kafka do not tell it."
    : "No node tells who the voters are.");
}

function showObservers(board) {
  const observers = board.observers ?? [];
  byId("observers").hidden = !observers.length;
  byId("metadata-note").hidden = !observers.some((one) => (one.kind ?? "").endsWith("broker"));
  fillTable(byId("observers-table"), ["Observer", "Is a", "Lag", "Last contact", "Log end", "Directory id"],
    observers.map((one) => ({ className: one.fetches ? "" : "silent", cells: [{ text: `Node ${one.id}` },
      cell(one.kind, one.kind === "fenced broker" ? "bad" : ""), cell(one.lag),
      { text: isTold(one.lastContactMs) ? `${span(one.lastContactMs)} ago` : NOT_TOLD, className: one.fetches ? "" : "bad" },
      cell(one.logEndOffset), cell(one.directoryId)] })));
}

function showEpochs(events, board, isVirtual) {
  const epochs = epochsOf(events, board);
  byId("epochs-none").hidden = epochs.length > 0;
  const newest = epochs.slice(-60);
  const leaders = [...new Set(newest.map((one) => one.leader).filter((leader) => leader !== null))].sort();
  showStrip(newest, leaders, board.atMs);
  const list = byId("epoch-list");
  fill(list, [...newest].reverse(), () => {
    const item = make("li");
    item.append(make("p"), make("p"), make("ul"));
    return item;
  }, (item, one) => {
    const [title, why, evidence] = item.children;
    const lasts = one.leader !== null && one.why === null && one.toMs === null;
    setClass(item, one.leader === null ? "none" : lasts ? "current" : "");
    const from = moment(one.fromMs, isVirtual);
    const until = one.toMs === null ? "now" : `${moment(one.toMs, isVirtual)} (${span(Math.max(0, one.toMs - one.fromMs))})`;
    setText(title, one.leader === null ? `Epoch ${one.epoch}: no leader was elected, from ${from} to ${until}`
      : `Epoch ${one.epoch}: node ${one.leader} ${lasts ? `leads since ${from}` : `led from ${from} to ${until}`}`);
    why.hidden = one.why === null;
    setText(why, one.why === null ? "" : `Lost because ${one.why}.`);
    fill(evidence, one.evidence, () => make("li"), (line, { atMs, text }) => setText(line, `${moment(atMs, isVirtual)} ${text}`));
  });
}

// The epochs as a strip of colours, in the order of the list, by duration; the list says the same in words.
function showStrip(epochs, leaders, nowMs) {
  const parts = [];
  epochs.forEach((one, index) => {
    const end = one.toMs ?? (index + 1 < epochs.length ? epochs[index + 1].fromMs : nowMs);
    parts.push({ leader: one.leader, epoch: one.epoch, ms: Math.max(1, end - one.fromMs) });
    const next = epochs[index + 1]?.fromMs ?? nowMs;
    if (one.leader !== null && next - end > 1) parts.push({ leader: null, ms: next - end });
  });
  byId("strip").hidden = !parts.length;
  const whole = parts.reduce((sum, part) => sum + part.ms, 0);
  fill(byId("strip"), parts, () => make("i"), (item, part) => {
    setClass(item, part.leader === null ? "none" : `n${leaders.indexOf(part.leader) % 5}`);
    setText(item, part.leader !== null && part.ms / whole > .05 ? `${part.leader}` : "");
    item.style.flex = `${Math.max(part.ms, whole / 200)} 0 0`;
  });
}

function showEvents(events, isVirtual) {
  const newest = [...events].sort((one, other) => one.atMs - other.atMs).slice(-200).reverse();
  setText(byId("events-count"), String(events.length));
  fill(byId("events"), newest, () => {
    const item = make("li");
    item.append(make("time"), make("span"));
    return item;
  }, (item, event) => {
    setText(item.firstElementChild, moment(event.atMs, isVirtual));
    const who = event.node === null ? "" : typeof event.node === "number" ? `Node ${event.node} ` : `${event.node} `;
    setText(item.lastElementChild, who + describe(event));
  });
}

function show(board, events, isVirtual, placeholder) {
  showVerdict(board);
  showFindings(board.findings, placeholder);
  showChange(board);
  showTables(board);
  showObservers(board);
  showEpochs(events, board, isVirtual);
  showEvents(events, isVirtual);
  const worst = board.findings?.[0]?.severity ?? "";
  document.title = `${worst === "critical" || worst === "warning" ? `${worst}: ` : ""}${byId("headline").textContent}`;
}

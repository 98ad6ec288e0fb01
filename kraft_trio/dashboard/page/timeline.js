// Which node led which epoch, and why each leader was lost: from the events that nodes tell and those seen from outside.
// An event is {atMs, node, what, …}; the fields of a node's own events are those of its log lines.

const BY = {
  HIGHER_EPOCH_SEEN: "it heard of a newer epoch",
  LEADER_DISCOVERED: "it found the leader",
  ELECTION_TIMED_OUT: "it knew no leader for the election timeout",
  FETCH_TIMED_OUT: "its leader gave no answer for the fetch timeout",
  VOTE_GRANTED: "it voted",
  PRE_VOTE_WON: "a majority would vote for it",
  PRE_VOTE_LOST: "no majority would vote for it",
  PRE_VOTE_LOST_TO_LEADER: "no majority would vote for it, because there is a leader",
  LEADER_MOVED: "its leader has another address",
  ELECTION_WON: "a majority voted for it",
  FETCHED_FROM_LEADER: "its leader answered",
  LEADER_RESIGNED: "its leader resigned and told it so",
  RESIGNED: "it resigned",
};

const idIn = (key) => String(key).split("-")[0]; // of a replica key, id-directory

// Better signs come from the leader itself.  With the others, it may still lead where this page does not reach it.
const SEEN_FROM_OUTSIDE = 2.7;
// One node alone could claim so many that the page would do nothing but conclude.
const MOST_EPOCHS = 100;

// The text of one event; null for those that say nothing new.
function describe(event) {
  const leader = isTold(event.leader_id) ? `leader ${event.leader_id}` : "no leader";
  switch (event.what) {
    case "role": {
      const why = event.reason ?? (event.cause === "ShutDown" ? "it shuts down" : BY[event.by] ?? event.by);
      return `${event.was} → ${event.role} in epoch ${event.epoch}, ${leader}: ${why}`;
    }
    case "vote requested":
      return `${event.granted ? "grants" : "refuses"} ${idIn(event.candidate)} ${event.pre_vote ? "a pre-vote" : "its vote"} ` +
        `in epoch ${event.epoch}: ${event.reason}`;
    case "vote answered":
      return `voter ${event.voter_id} ${event.granted ? "grants" : "refuses"} it ` +
        `${event.pre_vote ? "a pre-vote" : "its vote"} in epoch ${event.epoch}` +
        (event.error && event.error !== "none" ? ` (${event.error})` : "");
    case "voters in force": return `voters in force from offset ${event.offset}: ${event.voters}`;
    case "voter change appended": return `voter change appended at ${event.offset}: ${event.change}`;
    case "voter change answered":
      return `voter change ${event.change}: ${event.error === "none" ? "done" : event.error}` +
        (event.reason ? ` (${event.reason})` : "");
    case "reassignment": return `reassignment: ${event.status}`;
    case "unreachable": return `does not answer: ${event.problem}`;
    case "reachable": return `answers again, in epoch ${told(event.epoch)}, ${leader}`;
    case "first seen": return `answers, in epoch ${told(event.epoch)}, ${leader}`;
    case "claim": return `claims epoch ${told(event.epoch)}, ${leader}`;
    case "started": return "starts";
    case "ended": return `ends: ${event.reason}`;
    case "fault": case "step": return event.reason;
    default: {
      const hidden = new Set(["atMs", "what", "node", "node_id", "number", "id", "isTold", "level"]);
      const fields = Object.entries(event).filter(([name, value]) => !hidden.has(name) && isTold(value));
      return `${event.what}${fields.length ? ": " : ""}${fields.map(([name, value]) => `${name} ${value}`).join(", ")}`;
    }
  }
}

// The epochs, oldest first: {epoch, leader, fromMs, toMs, why, evidence, refusals}; `toMs` is null for one that lasts.
// `now` is {epoch, leaderId}, what holds at the end of the events.
function epochsOf(events, now) {
  const epochs = new Map();
  const at = (number) => {
    if (!epochs.has(number)) {
      epochs.set(number, { epoch: number, leader: null, fromMs: null, toMs: null, signs: [], refusals: new Map() });
    }
    return epochs.get(number);
  };
  const ordered = [...events].sort((one, other) => one.atMs - other.atMs);
  for (const event of ordered) {
    if (!isTold(event.epoch) || event.epoch < 1) continue;
    if (event.what === "vote requested" || event.what === "vote answered") {
      noteVote(at(event.epoch), event);
      continue;
    }
    const one = at(event.epoch);
    one.fromMs ??= event.atMs;
    if (event.what === "role" && (event.by === "PRE_VOTE_LOST" || event.by === "PRE_VOTE_LOST_TO_LEADER")) {
      noteRefusal(one, `node ${event.node} asked for votes, and ${BY[event.by]}`, event.atMs);
    }
    const leader = event.what === "role" && event.role === "Leader" ? event.node : event.leader_id;
    if (isTold(leader) && event.what !== "unreachable" && one.leader === null) {
      one.leader = leader;
      one.fromMs = event.atMs;
    }
  }
  for (const number of [...epochs.keys()].sort((one, other) => one - other).slice(0, -MOST_EPOCHS)) epochs.delete(number);
  for (const event of ordered) collectSigns(epochs, event);
  const found = [...epochs.values()].filter((one) => one.fromMs !== null).sort((one, other) => one.epoch - other.epoch);
  found.forEach((one, index) => conclude(one, found[index + 1], now));
  return found;
}

function noteVote(epoch, event) {
  if (event.granted) return;
  const isAsked = event.what === "vote requested";
  if (!isAsked && event.error === "none") return; // the voter's own event has the reason
  const text = isAsked ? `node ${event.node} refuses node ${idIn(event.candidate)}: ${event.reason}`
    : `voter ${event.voter_id} refuses node ${event.node}: ${event.error}`;
  noteRefusal(epoch, text, event.atMs);
}

function noteRefusal(epoch, text, atMs) {
  const known = epoch.refusals.get(text) ?? { times: 0 };
  epoch.refusals.set(text, { times: known.times + 1, atMs }); // the time of the last
}

// What tells that a leader was lost: the better the sign, the lower its rank.
function collectSigns(epochs, event) {
  for (const one of epochs.values()) {
    if (one.leader === null || event.atMs < one.fromMs) continue;
    const leads = event.node === one.leader;
    const sign = (rank, text) => one.signs.push({ rank, text, atMs: event.atMs, node: event.node });
    if (event.what === "role" && leads && event.was === "Leader" && (event.epoch === one.epoch || event.epoch > one.epoch)) {
      const isNext = ![...epochs.values()].some((other) => other.leader === one.leader && other.epoch > one.epoch &&
        other.fromMs <= event.atMs);
      if (!isNext) continue;
      if (event.role === "Resigned") {
        sign(1, event.reason ? `it resigned: ${event.reason}` : "it resigned, because it was stopped");
      } else {
        sign(4, `it was replaced: ${BY[event.by] ?? event.by}, epoch ${event.epoch}`);
      }
    } else if (leads && (event.what === "disk full" || event.what === "storage poisoned") && isDuring(one, event, epochs)) {
      sign(0, `its disk failed or was full: ${event.reason}`);
    } else if (leads && (event.what === "ended" || event.what === "fault") && isDuring(one, event, epochs)) {
      sign(2, `${event.what === "ended" ? "its process ended" : "it was stopped"}: ${event.reason}`);
    } else if (leads && event.what === "unreachable" && (event.epoch === one.epoch || isDuring(one, event, epochs))) {
      const left = event.free_bytes;
      if (isTold(left) && left < LITTLE_BYTES) sign(2.7, `its disk had ${bytes(left)} left, and it stopped answering: ${event.problem}`);
      else sign(3, `it stopped answering: ${event.problem}`);
    } else if (event.what === "role" && !leads && event.epoch === one.epoch && event.by === "LEADER_RESIGNED") {
      sign(2.5, `it resigned, and told node ${event.node} so`);
    } else if (event.what === "role" && !leads && event.epoch === one.epoch && event.by === "FETCH_TIMED_OUT") {
      sign(3.5, `node ${event.node} had no answer from it for the fetch timeout`);
    }
  }
}

// Whether an event of the leader falls into its epoch, up to the moment at which the next leader is known.
function isDuring(one, event, epochs) {
  const next = Math.min(...[...epochs.values()].filter((other) => other.epoch > one.epoch && other.leader !== null)
    .map((other) => other.fromMs));
  return event.atMs <= next;
}

function conclude(one, next, now) {
  const isLast = !next;
  const signs = one.signs.sort((a, b) => a.rank - b.rank || a.atMs - b.atMs);
  const isNamed = one.leader !== null && now.leaderId === one.leader && now.epoch === one.epoch;
  const lasts = isLast && isNamed && !(signs.length && signs[0].rank < SEEN_FROM_OUTSIDE);
  one.evidence = [];
  one.why = null;
  one.toMs = null;
  if (one.leader === null) {
    one.toMs = isLast ? null : next.fromMs;
    one.evidence = [...one.refusals].map(([text, { times, atMs }]) => ({ atMs, text: times > 1 ? `${text} (${times} times)` : text }));
    return;
  }
  if (lasts) return;
  const ends = [...signs.map((sign) => sign.atMs), ...(next ? [next.fromMs] : [])];
  one.toMs = ends.length ? Math.min(...ends) : null;
  if (isLast || one.leader !== next.leader || signs.length) {
    one.why = signs.length ? signs[0].text : "no node tells why";
  }
  const seen = new Set([one.why]);
  for (const sign of [...signs].sort((a, b) => a.atMs - b.atMs)) {
    if (!seen.has(sign.text)) one.evidence.push({ atMs: sign.atMs, text: sign.text });
    seen.add(sign.text);
  }
  one.evidence = one.evidence.slice(0, 6);
  if (isLast) {
    for (const [text, { times, atMs }] of one.refusals) {
      if (one.evidence.length < 10 && atMs >= (one.toMs ?? 0)) {
        one.evidence.push({ atMs, text: times > 1 ? `${text} (${times} times)` : text });
      }
    }
  }
}

// A recorded run: reads traces (docs/reference/traces.md), and tells what held at each moment, in the terms of the live view.

const MAX_TRACE_BYTES = 128 * 1024 * 1024;
const KEY_KINDS = new Set(["role", "voters", "start", "end", "fault", "step", "violation", "truncate", "replace"]);
const NO_HEADER = "not a trace: its first record is no header";
const STATE = ["epoch", "role", "leader", "log_end", "high_watermark", "voters"];

// The records of one file, the header first.  Throws Error for a file that is no trace; a torn end is left out.
function recordsOf(buffer) {
  const bytesOf = new Uint8Array(buffer);
  if (bytesOf.length === 0) throw new Error("the file is empty");
  const records = [];
  if (bytesOf[0] === 0x7b) {
    for (const line of new TextDecoder().decode(bytesOf).split("\n")) {
      if (!line) continue;
      try { records.push(JSON.parse(line)); } catch { break; }
    }
  } else {
    if ((bytesOf[0] & 0xf0) !== 0x80 && bytesOf[0] !== 0xde) throw new Error(NO_HEADER);
    const reader = new Msgpack(buffer);
    try {
      while (!reader.isAtEnd) records.push(reader.next());
    } catch (error) {
      if (!(error instanceof RangeError) && records.length < 2) throw error;
    }
  }
  const header = records[0];
  if (!header || header.format !== "kraft-trio trace") throw new Error(NO_HEADER);
  if (header.version !== 1) throw new Error(`version ${header.version} of traces; this page reads version 1`);
  return records;
}

// Whether a line was logged by a simulated process after its death, which storage calls then find out.
const isOfDead = (details) => String(details?.reason).includes("the process that called");

class Replay {
  // `files` are {name, buffer}.  The traces of several nodes are merged by time.
  constructor(files) {
    const size = files.reduce((sum, file) => sum + file.buffer.byteLength, 0);
    if (size > MAX_TRACE_BYTES) throw new Error(`${bytes(size)}; this page replays up to ${bytes(MAX_TRACE_BYTES)}`);
    const traces = files.map((file) => {
      try { return recordsOf(file.buffer); } catch (error) { throw new Error(`${file.name}: ${error.message}`); }
    });
    const headers = traces.map((records) => records[0]);
    this.isVirtual = headers.some((header) => isTold(header.seed));
    this.name = files.map((file) => file.name).join(", ");
    const [first] = headers;
    this.about = this.isVirtual ? `simulated run, seed ${first.seed}` : `nodes ${list(headers.map((header) => header.node))}`;
    this.records = traces.flatMap((records) => records.slice(1)).filter((record) => isTold(record.time_us));
    this.records.sort((one, other) => one.time_us - other.time_us || one.sequence - other.sequence);
    if (this.isVirtual) { // a simulation ends all processes after the run, which tells nothing of the run
      const endsRun = ({ kind, details }) => kind === "end" || (kind === "log" && isOfDead(details));
      while (this.records.length && endsRun(this.records[this.records.length - 1])) this.records.pop();
    }
    if (!this.records.length) throw new Error("the trace has no events");
    this.history = new Map(); // node → its states, by time
    this.events = [];
    this.keys = []; // the indices of records at which something changes
    this.records.forEach((record, index) => this.take(record, index));
    if (!this.keys.length) this.keys.push(0);
  }

  take(record, index) {
    const { node, kind } = record;
    const details = record.details ?? {};
    if (KEY_KINDS.has(kind) || (kind === "log" && record.cause === "role")) this.keys.push(index);
    if (isTold(node)) this.takeState(record, index, details);
    const event = this.eventOf(record, details);
    if (event) this.events.push(event);
  }

  takeState(record, index, details) {
    const states = this.history.get(record.node) ?? [];
    if (!states.length) this.history.set(record.node, states);
    const before = states[states.length - 1] ?? { appended: [] };
    const now = { ...before, index };
    for (const name of STATE) if (isTold(record[name])) now[name] = record[name];
    if (isTold(record.role) && !isTold(record.leader)) now.leader = null;
    switch (record.kind) {
      case "start": now.problem = null; break;
      case "end": now.problem = record.cause || "ended"; break;
      case "fault": now.problem = record.cause === "paused" ? "paused" : record.cause === "resumed" ? null : before.problem; break;
      case "append": now.appended = [...before.appended.slice(-199), { from: details.base_offset, epoch: details.record_epoch }]; break;
      default: if (before.problem === undefined) now.problem = null;
    }
    const same = [...STATE, "problem"].every((name) => String(now[name]) === String(before[name]));
    if (!same) states.push(now);
    else if (now.appended !== before.appended && states.length) before.appended = now.appended;
  }

  eventOf(record, details) {
    const event = (what, fields) => ({ ...fields, what, node: record.node ?? null, atMs: record.time_us / 1000, isTold: true });
    if (record.kind === "log") {
      return ["role", "vote requested", "vote answered", "voters in force", "voter change appended", "voter change answered",
        "reassignment", "snapshot taken", "disk full", "storage poisoned"].includes(record.cause) &&
        !isOfDead(details) ? event(record.cause, details) : null;
    }
    if (record.kind === "start") return event("started", {});
    if (record.kind === "end") return event("ended", { reason: record.cause });
    if (record.kind === "fault") return event("fault", { reason: record.cause });
    if (record.kind === "step") return event("step", { reason: record.cause });
    if (record.kind === "violation") return event("violation", { reason: record.cause });
    return null;
  }

  // The newest state of a node at the record with that index.
  stateAt(node, index) {
    const states = this.history.get(node);
    let low = 0;
    let high = states.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (states[middle].index <= index) low = middle + 1; else high = middle;
    }
    return low ? states[low - 1] : null;
  }

  atMs(index) { return this.records[index].time_us / 1000; }

  // The situation at a record, as the server explains it: {claims, report}.
  situationAt(index) {
    const claims = [];
    const states = new Map();
    for (const node of [...this.history.keys()].sort((one, other) => one - other)) {
      const state = this.stateAt(node, index);
      if (!state) continue;
      states.set(node, state);
      const own = state.appended.filter((batch) => batch.from < state.log_end);
      const end = isTold(state.log_end) && own.length ? { offset: state.log_end, epoch: own[own.length - 1].epoch } : null;
      claims.push({
        endpoint: `node ${node}`, nodeId: node, problem: state.problem ?? null, epoch: state.epoch ?? null,
        leaderId: state.leader ?? null, voters: state.voters ?? null, logEnd: end,
        highWatermark: state.high_watermark ?? null,
      });
    }
    return { claims, report: this.reportAt(states) };
  }

  // What the leader with the newest epoch knows; null without one.
  reportAt(states) {
    let leader = null;
    for (const [node, state] of states) {
      if (state.role === "Leader" && !state.problem && (leader === null || state.epoch > states.get(leader).epoch)) leader = node;
    }
    if (leader === null) return null;
    const own = states.get(leader);
    const voters = (own.voters ?? []).map((id) => {
      const state = states.get(id);
      if (!state) return { id, health: "offline", reason: "is not in the trace" };
      if (state.problem) return { id, health: "offline", reason: `does not run (${state.problem})` };
      if (id !== leader && (state.epoch !== own.epoch || state.leader !== leader)) {
        return { id, health: "offline", reason: `does not follow node ${leader} in epoch ${own.epoch}` };
      }
      return { id, health: "up", reason: "" };
    });
    return { leaderId: leader, epoch: own.epoch, highWatermark: own.high_watermark ?? -1, voters, before: [], target: [] };
  }

  // The board of the live view, but for what the server explains.
  boardAt(index, explained) {
    const { claims, report } = this.situationAt(index);
    const byId = new Map((explained?.claims ?? []).map((claim) => [claim.nodeId, claim]));
    const shown = claims.map((claim) => {
      const state = this.stateAt(claim.nodeId, index);
      return {
        ...claim, contradicts: byId.get(claim.nodeId)?.contradicts ?? [], ageMs: null, role: state.role ?? null, endpoint: "",
        last: claim.problem ? { epoch: claim.epoch, leaderId: claim.leaderId, voters: claim.voters } : null,
      };
    });
    const states = new Map(claims.map((claim) => [claim.nodeId, claim]));
    const ids = explained?.survival?.[0]?.voters ?? report?.voters.map((voter) => voter.id) ?? [];
    const end = report ? states.get(report.leaderId)?.logEnd?.offset : null;
    const voters = ids.map((id) => {
      const its = report?.voters.find((voter) => voter.id === id);
      const offset = states.get(id)?.logEnd?.offset ?? null;
      return {
        id, isLeader: report?.leaderId === id, health: its?.health ?? null, reason: its?.reason ?? null,
        logEndOffset: offset, lag: isTold(end) && isTold(offset) ? Math.max(0, end - offset) : null, lastContactMs: null,
        isSilent: !states.has(id) || states.get(id).problem !== null, vitals: {}, ageMs: null,
      };
    });
    return {
      ...(explained ?? { findings: null, survival: [], change: null, epoch: null, leaderId: null, clusterId: null }),
      atMs: this.atMs(index), claims: shown, voters, source: { kind: "replay" },
    };
  }
}

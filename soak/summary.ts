/** The summary of a soak test, in lines. */
import type { History } from "./history.js";
import { median, type Verdict } from "./judge.js";

export function summaryOf(
  history: History,
  { apps, findings }: Verdict,
  sockets: { opened: number; refusedSockets: number },
): string[] {
  const { exchanges, faults, processes, durationMs, ledgers } = history;
  const byName = new Map<string, number>();
  for (const { name } of faults) byName.set(name, (byName.get(name) ?? 0) + 1);
  const names = [...new Set(processes.map(({ name }) => name))];
  const most = history.sockets.reduce((max, { pods }) => Math.max(max, ...pods), 0);
  return [
    "",
    `${(durationMs / 60_000).toFixed(1)} minutes, ${exchanges.length} requests, ${faults.length} faults`,
    `faults: ${[...byName].map(([name, count]) => `${name} ${count}`).join(", ")}`,
    ...apps.map(({ app, offered, admitted, refused, unavailable, failed, worstWindow }) => {
      const { tokens, held, spent } = ledgers.find((ledger) => ledger.app === app) ?? { tokens: 0, held: 0, spent: 0 };
      const window = `fullest window ${(worstWindow * 100).toFixed(0)} % of what it allows`;
      const ledger = `charged ${spent}, bucket ${tokens.toFixed(0)}, on leases ${held}`;
      return `${app}: ${offered} requests, ${admitted} admitted, ${refused} refused, ${unavailable} without the store, ${failed} failed; ${window}; ${ledger}`;
    }),
    `sockets: ${sockets.opened} opened, ${sockets.refusedSockets} refused, at most ${most} on a pod (limit ${history.maxPerPod}), ${history.slotsAtEnd} slots at the end`,
    ...names.map((name) => {
      const own = processes.filter((sample) => sample.name === name);
      const [memory, files] = [own.map(({ memoryMb }) => memoryMb), own.map((sample) => sample.files)];
      const pids = new Set(own.map(({ pid }) => pid)).size;
      return `${name}: ${pids} processes, median ${median([...memory]).toFixed(0)} MB, most ${Math.max(...memory).toFixed(0)} MB, at most ${Math.max(...files)} files, ${history.filesAtStart[name] ?? "?"} at the start, ${history.filesAtEnd[name] ?? "?"} at the end`;
    }),
    ...findings.map(({ check, detail }) => `FAILED ${check}: ${detail}`),
  ];
}

/** Measures the grant function in a real Redis beside a function that runs one INCRBY, with pipelined calls. */
import { loadLibrary } from "../src/store/function-library.js";
import { functionName } from "../src/store/function-names.js";
import { startRedis } from "../test/support/redis-server.js";
import { steadyGrant, WANT } from "./grant-calls.js";
import { noBudget, type Result, result } from "./results.js";
import { alternate, median } from "./rounds.js";
import { encodeCommand, openPipeline, type Pipeline } from "./support/pipeline.js";

const ROUNDS = 31;
/** Short rounds, and many of them: a disturbance then spoils a few pairs and not the median. */
const SHAPES = [
  { apps: 1, calls: 2000, suffix: "" },
  { apps: 10, calls: 350, suffix: "-10-apps" },
];

const BASELINE = `#!lua name=baseline
redis.register_function('baseline', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)`;

export async function grant(): Promise<Result[]> {
  const library = loadLibrary();
  const server = await startRedis();
  try {
    await server.command("FUNCTION", "LOAD", library.source);
    await server.command("FUNCTION", "LOAD", BASELINE);
    const pipeline = await openPipeline(server.port);
    const results: Result[] = [];
    for (const { apps, calls, suffix } of SHAPES) {
      let seq = 0;
      const grants = () => {
        const commands = Array.from({ length: calls }, () => {
          const { keys, args } = steadyGrant(`bench-${apps}`, apps, ++seq);
          return encodeCommand(["FCALL", functionName(library.name, "grant"), keys.length, ...keys, ...args]);
        });
        // Each app of the last reply was granted all it asked for.
        return callsPerSecond(
          pipeline,
          commands,
          (last) => last.split(`$2\r\nok\r\n:${WANT * seq}\r\n`).length === apps + 1,
        );
      };
      const baseline = encodeCommand(["FCALL", "baseline", 1, "counter", 1]);
      const increments = () => callsPerSecond(pipeline, Array(calls).fill(baseline), () => true);
      const pairs = await alternate(ROUNDS, grants, increments);
      const ratio = median(pairs.map(([ours, theirs]) => ours / theirs));
      results.push(result(`grant${suffix}`, ratio, "÷ a function with one INCRBY, calls/s", noBudget));
      results.push(result(`grant-per-second${suffix}`, median(pairs.map(([ours]) => ours)), "calls/s", noBudget));
    }
    pipeline.close();
    return results;
  } finally {
    await server.stop();
  }
}

async function callsPerSecond(pipeline: Pipeline, commands: Buffer[], isGood: (last: string) => boolean) {
  const { ms, replies } = await pipeline.send(Buffer.concat(commands));
  const text = replies.toString("latin1");
  if (/(^|\r\n)-/.test(text) || !isGood(text.slice(text.lastIndexOf("*")))) {
    throw new Error(`a call failed: ${JSON.stringify(text.slice(-300))}`);
  }
  return (commands.length * 1000) / ms;
}

/** `tollgate scripts`: the Redis function library, the versions that the servers have loaded, and the removal of old ones. */
import { catalog, type ScriptName } from "../scripts/catalog.js";
import { readTlsFiles } from "../shared/tls/tls-files.js";
import { StoreError } from "../store/errors.js";
import { loadLibrary } from "../store/function-library.js";
import { functionName } from "../store/function-names.js";
import { listLibraries, removeOtherLibraries, type ServerLibraries } from "../store/redis/library.js";
import { isRedisUrl } from "../store/redis/redis-url.js";
import { configOrThrow } from "./check-config.js";
import {
  type Command,
  EXIT_NOT_ALLOWED,
  EXIT_REFUSED,
  EXIT_UNREACHABLE,
  Failure,
  flagOption,
  readOptions,
  textOption,
  UsageError,
} from "./command.js";
import { columnsOf, printed, tableLines } from "./printing.js";

const help = `Usage: tollgate scripts [--store URL | --config FILE] [--remove-old] [--json]

Shows the function library that tollgate loads into Redis: its name with a hash of its content, its size, its functions
and their flags. With a store it also shows the versions that each primary has loaded.

  --store URL    the Redis to look at, for example redis://127.0.0.1:6379
  --config FILE  take the URL from this configuration and the environment
  --remove-old   remove all versions but the current one from each primary. A running service that uses another version
                 loads it again with its next call
  --json         machine-readable

Examples:
  tollgate scripts
  tollgate scripts --store redis://127.0.0.1:6379 --remove-old
`;

export const command: Command = {
  help,
  async run(args) {
    const options = readOptions(args, {
      store: textOption,
      config: textOption,
      "remove-old": flagOption,
      json: flagOption,
    });
    const place = storePlace(options);
    const { name, source } = loadLibrary();
    const functions = Object.entries(catalog).map(([script, { flags }]) => ({
      script,
      function: functionName(name, script as ScriptName),
      flags,
    }));
    if (options["remove-old"] && place === undefined) throw new UsageError("--remove-old needs --store or --config");
    const removed =
      options["remove-old"] && place !== undefined ? await orFailure(removeOtherLibraries(place, name)) : undefined;
    const servers = place === undefined ? undefined : await orFailure(listLibraries(place));
    const bytes = Buffer.byteLength(source);
    if (options.json) return `${JSON.stringify({ library: name, bytes, functions, servers, removed })}\n`;
    const rows = functions.map((each) => [each.function, each.flags || "-"]);
    return printed([
      `library ${name}, ${bytes} bytes`,
      "",
      ...tableLines(["function", ">flags"], rows, columnsOf()),
      ...(removed ?? []).flatMap((each) => ["", removedLine(each)]),
      ...(servers ?? []).flatMap((each) => ["", serverLine(each, name)]),
    ]);
  },
};

function storePlace({ store, config: file }: { store?: string | undefined; config?: string | undefined }) {
  if (store !== undefined && file !== undefined) throw new UsageError("give --store or --config, not both");
  const config = file === undefined ? undefined : configOrThrow(file);
  const url = config === undefined ? store : config.store;
  if (url === undefined) return undefined;
  if (!isRedisUrl(url)) throw new UsageError("the store is not a Redis");
  if (config?.store_tls === undefined) return { url };
  const { material, problems } = readTlsFiles(config.store_tls);
  const [problem] = problems;
  if (problem !== undefined) throw new Error(`store_tls.${problem.option}: ${problem.reason}`);
  const { name } = config.store_tls;
  return { url, tls: { ...material, ...(name === undefined ? {} : { servername: name }) } };
}

function removedLine({ server, libraries }: ServerLibraries): string {
  return `${server}: removed ${libraries.length === 0 ? "nothing" : libraries.join(", ")}`;
}

function serverLine({ server, libraries }: ServerLibraries, current: string): string {
  const own = libraries.includes(current) ? "loaded" : "not loaded";
  const others = libraries.filter((name) => name !== current);
  return `${server}: ${own}${others.length === 0 ? "" : `; other versions: ${others.join(", ")}`}`;
}

async function orFailure<T>(reply: Promise<T>): Promise<T> {
  try {
    return await reply;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const codes: Partial<Record<StoreError["kind"], number>> = {
      denied: EXIT_NOT_ALLOWED,
      unavailable: EXIT_UNREACHABLE,
    };
    throw new Failure(error.message, codes[error.kind] ?? EXIT_REFUSED);
  }
}

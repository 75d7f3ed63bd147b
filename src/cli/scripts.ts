/** `tollgate scripts`: the generated Redis scripts with size, flags and SHA1, to compare with what a Redis holds. */
import { loadScripts } from "../store/script-files.js";
import { type Command, readOptions, table } from "./command.js";

const help = `Usage: tollgate scripts [--json]

Lists the scripts that tollgate runs inside Redis. The SHA1 is what EVALSHA calls a script by, so
SCRIPT EXISTS <sha1> tells whether a Redis already holds it.

  --json  machine-readable

Example:
  tollgate scripts
`;

export const scriptsCommand: Command = {
  name: "scripts",
  summary: "The generated Redis scripts with size, flags and SHA1",
  help,
  run(args) {
    const { json } = readOptions(args, { json: { type: "boolean", default: false } });
    const scripts = [...loadScripts()].map(([name, { bytes, flags, sha1 }]) => ({ name, bytes, flags, sha1 }));
    if (json) return `${JSON.stringify(scripts)}\n`;
    const rows = scripts.map(({ name, bytes, flags, sha1 }) => [name, String(bytes), flags === "" ? "-" : flags, sha1]);
    return table([["script", "bytes", "flags", "sha1"], ...rows]);
  },
};

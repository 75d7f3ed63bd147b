/** `tollgate config`: reads and writes the configuration layer in the store, which overrides the files of all services. */
import { readFileSync } from "node:fs";
import { parse, stringify } from "yaml";
import * as contract from "../service/operations/contract/contract.js";
import { EXIT_OK, textOption, UsageError } from "./command.js";
import { type Answer, actionCommand, type OperatorCall, show } from "./control/operator-command.js";
import { readWhole } from "./numbers.js";
import { escaped, toned } from "./printing.js";

const help = `Usage: tollgate config get
       tollgate config export
       tollgate config put FILE [--revision N]
       tollgate config restore
       tollgate config clear

The layer in the store overrides the configuration files of all services of the cluster, at once. It is validated
together with the file before it is written; an invalid one is rejected. Neither get nor export shows secrets.

  get           the layer in the store
  export        the layer in force on this service, even if the store was emptied; a backup that put accepts
  restore       writes the layer in force, secrets included, back to a store that was emptied
  put FILE      a YAML or JSON file with options; - reads stdin. Replaces the whole layer
  --revision N  write only if the layer still has this revision, as shown by get

Examples:
  tollgate config put limits.yaml --reason "black friday"
  tollgate config get > limits.yaml
  echo 'apps: { video-service: { guaranteed: 5000 } }' | tollgate config put -
`;

const path = "/admin/ratelimit/config";

export const command = actionCommand({
  help,
  options: { revision: textOption },
  isMutating: true,
  actions: {
    get: {
      async run({ client }) {
        const reply = await client.call({ path, reply: contract.layerReply });
        // Escapes lines, not values: a value may have several lines.
        return { reply, lines: () => layerLines(reply), exitCode: EXIT_OK };
      },
    },
    export: {
      async run({ client }) {
        const reply = await client.call({ path, reply: contract.layerReply });
        return { reply: reply.active, lines: () => layerLines({ ...reply, ...reply.active }), exitCode: EXIT_OK };
      },
    },
    restore: { run: (call) => write(call, {}, { method: "POST", path: `${path}/restore` }) },
    put: {
      words: ["FILE"],
      options: ["revision"],
      run(call) {
        const { revision: text } = call.values;
        const bounds = { least: 0, most: Number.MAX_SAFE_INTEGER };
        const expected_revision = text === undefined ? undefined : readWhole("--revision", text, bounds);
        return write(call, { config: readLayer(call.words.required("FILE")), expected_revision });
      },
    },
    // An empty layer instead of a DELETE, because the body carries operator and reason.
    clear: { run: (call) => write(call, { config: {} }) },
  },
});

function write(
  call: Omit<OperatorCall, "values">,
  layer: object,
  where: { method: "PUT" | "POST"; path: string } = { method: "PUT", path },
): Promise<Answer> {
  const body = { ...layer, ...call.signature };
  return show(call, { ...where, body, reply: contract.layerReply }, (reply) => {
    const names = Object.keys(reply.config);
    const what = names.length === 0 ? "the layer is empty" : `the layer sets ${names.join(", ")}`;
    return [`revision ${reply.revision}: ${what}; configuration ${toned("strong", reply.config_version)}`];
  });
}

/** Only parses the file; the service validates it. */
function readLayer(file: string): Record<string, unknown> {
  const name = file === "-" ? "stdin" : file;
  let read: unknown;
  try {
    read = parse(readFileSync(file === "-" ? 0 : file, "utf8"), { maxAliasCount: 100 });
  } catch (error) {
    const reason = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
    throw new UsageError(`${name} cannot be read: ${reason}`);
  }
  if (typeof read === "object" && read !== null && !Array.isArray(read)) return read as Record<string, unknown>;
  throw new UsageError(`${name} must contain options with values, such as apps: { video: { guaranteed: 5000 } }`);
}

/** YAML that `put` accepts; the rest is in comments. */
export function layerLines({ revision, config, config_version: version }: contract.LayerReply): string[] {
  const isEmpty = Object.keys(config).length === 0;
  return [
    toned("faint", `# revision ${revision}, configuration ${escaped(version)}`),
    ...(isEmpty ? [toned("faint", "# the layer is empty")] : stringify(config).trimEnd().split("\n").map(escaped)),
  ];
}

/** Configuration files: any text is a configuration, or rejected with a path and a reason for each problem. */
import { readdirSync, readFileSync } from "node:fs";
import { fromRoot } from "../../build/paths.js";
import { readConfig } from "../../src/config/load.js";
import { proxyOptions } from "../../src/config/options/proxy.js";
import { descriptorOptions, envoyServiceOptions, metricsOptions } from "../../src/config/options/service.js";
import { sections } from "../../src/config/schema.js";
import type { FuzzTarget } from "../target.js";

const invalid = "test/unit/config/bad";
const files = [
  "examples/gateway.yaml",
  "examples/nginx/tollgate.yaml",
  "examples/envoy-websockets/tollgate.yaml",
  ...readdirSync(fromRoot(invalid)).map((name) => `${invalid}/${name}`),
];

export const config: FuzzTarget = {
  seeds: files.map((file) => readFileSync(fromRoot(file))).filter(({ length }) => length < 8_192),
  words: [
    ...Object.keys(sections).map((name) => `\n${name}: `),
    ...["&a ", "*a", "<<: *a", "__proto__: ", "constructor: ", "\n  - ", "[", "]", "{", "}", "? ", ": ", "|\n", ">-\n"],
    ...[
      ".inf",
      ".nan",
      "-1",
      "1e309",
      "9007199254740993",
      "0x10",
      "null",
      "~",
      "true",
      "!!binary ",
      "!!js/function ",
      "!a ",
    ],
    ...[
      "\0",
      "\t",
      "\u2028",
      "\ufeff",
      "---\n",
      "...\n",
      "# ",
      '"',
      "'",
      "\\u0000",
      "%YAML 1.1\n",
      "$HOME",
      "a/b/../c",
      "::/0",
    ],
  ],
  maxBytes: 16_384,
  budget: { cpuMs: 1_000, memoryMb: 128 },
  async start() {
    return {
      run(input) {
        const { config: read, problems } = readConfig(input.toString("utf8"), {});
        if (read === undefined) {
          if (problems.length === 0) throw new Error("rejected without a reason");
          for (const { path, reason } of problems) {
            if (path === "" || reason === "") throw new Error(`a problem without a path or reason: ${path}: ${reason}`);
          }
          return;
        }
        // What is accepted can be applied.
        proxyOptions(read);
        envoyServiceOptions(read);
        descriptorOptions(read);
        metricsOptions(read);
      },
      async stop() {},
    };
  },
};

/** The structure check reports each kind of forbidden import with file, line and rule, and lists import cycles. */
import { describe, expect, it } from "vitest";
import { structureProblems } from "../../../build/check-structure.js";

const problemsOf = (files: Record<string, string>) => structureProblems(new Map(Object.entries(files)));

describe("the structure check", () => {
  it("accepts imports of lower modules, of the own module and of packages", () => {
    const text = `import ts from "typescript";\nimport { a } from "../core/a.js";\nimport type { B } from "./b.js";`;
    expect(problemsOf({ "store/a.ts": text, "store/b.ts": "", "core/a.ts": "" })).toEqual([]);
  });

  it.each([
    ["an import", `import { a } from "../cli/a.js";`],
    ["a type import", `import type { A } from "../cli/a.js";`],
    ["a re-export", `export * from "../cli/a.js";`],
    ["a dynamic import", `const a = await import("../cli/a.js");`],
    ["an inline type import", `export type A = import("../cli/a.js").A;`],
  ])("rejects %s of a higher module", (_kind, line) => {
    expect(problemsOf({ "core/b.ts": `// 1\n${line}` })).toEqual([
      "src/core/b.ts:2: imports src/cli/a.ts, but core is below cli",
    ]);
  });

  it.each([
    ["quota/a.ts", "../slots/b.js", "quota and slots may not import each other"],
    ["planes/nginx/a.ts", "../envoy/b.js", "planes/nginx and planes/envoy may not import each other"],
    ["planes/node/a.ts", "../lua/b.js", "planes/lua is only for nginx and Envoy"],
    ["planes/node/http/a.ts", "../../lua/http/b.js", "planes/lua is only for nginx and Envoy"],
    ["planes/lua/http/a.ts", "../sockets/b.js", "planes/lua is below planes/lua/sockets"],
    ["shared/a.ts", "./tls/b.js", "shared is below shared/tls"],
    ["service/metrics/a.ts", "../control/b.js", "service/metrics is below service/control"],
    ["limiter/a.ts", "../index.js", "limiter is below index.ts"],
    ["index.ts", "./config/b.js", "index.ts may import only limiter, store, core, shared"],
  ])("rejects in %s the import of %s", (file, target, rule) => {
    const problems = problemsOf({ [file]: `import "${target}";` });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(`src/${file}:1: imports src/`);
    expect(problems[0]).toContain(rule);
  });

  it("allows both Lua planes to import planes/lua", () => {
    const text = `import "../lua/a.js";`;
    expect(problemsOf({ "planes/nginx/a.ts": text, "planes/envoy/a.ts": text })).toEqual([]);
  });

  it("lists each import cycle once, type imports included", () => {
    const files = {
      "core/a.ts": `import "./b.js";`,
      "core/b.ts": `import type { C } from "./c.js";`,
      "core/c.ts": `import "./a.js";`,
      "core/d.ts": `import "./a.js";`,
    };
    expect(problemsOf(files)).toEqual(["src/core/a.ts: import cycle core/a.ts → core/b.ts → core/c.ts → core/a.ts"]);
  });

  it.each(["utils", "core/utils", "planes/lua/http/utils"])("rejects the folder %s, which no rule names", (folder) => {
    expect(problemsOf({ [`${folder}/a.ts`]: "", [`${folder}/b.c`]: "" })).toEqual([
      `src/${folder}: is not in LAYERS of build/check-structure.ts; list it with what it may import`,
    ]);
  });

  it.each(["`ratelimit:{#{id}}:app`", "`#{a}ws:{#{tag}}`", '"ratelimit:emergency"', "/^ws:pod_conn/"])(
    "rejects the name of a key %s outside of core/keys.ts",
    (name) => {
      const text = `// ratelimit:{shard}\nconst name = ${name.replaceAll("#", "$")};`;
      expect(problemsOf({ "quota/a.ts": text })).toEqual([
        "src/quota/a.ts:2: has the prefix of a key; names of keys are built in src/core/keys.ts",
      ]);
      expect(problemsOf({ "core/keys.ts": text })).toEqual([]);
    },
  );

  it("accepts URLs and metrics that look like names of keys", () => {
    expect(problemsOf({ "quota/a.ts": 'const a = ["ws://host", "x_ratelimit: true", "tollgate_ws:1"];' })).toEqual([]);
  });
});

/** docs/OPERATIONS.md matches the program: exit codes, commands and options. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { exitCodes } from "../../../src/cli/command.js";
import { runCommandLine } from "../../../src/cli/command-line.js";
import { commandGroups } from "../../../src/cli/command-list.js";

const page = readFileSync(new URL("../../../docs/OPERATIONS.md", import.meta.url), "utf8");

it("lists exactly the exit codes there are", () => {
  const listed = [...page.matchAll(/^\| (\d) \| (.*) \|$/gm)].map(([, code, meaning]) => [Number(code), meaning]);
  expect(listed).toEqual(exitCodes);
});

it("names only commands and options that exist", async () => {
  const known = new Set(commandGroups.flatMap(({ commands }) => commands.map(({ name }) => name)));
  const calls = [...page.matchAll(/(?:`|\$ |^)tollgate ([a-z-]+)([^`\n|;]*)/gm)];
  expect(calls.length).toBeGreaterThan(20);
  for (const [, name = "", rest = ""] of calls) {
    expect(known, name).toContain(name);
    const { text: help } = await runCommandLine([name, "--help"]);
    for (const [option] of rest.matchAll(/--[a-z-]+/g)) expect(help, `${name} ${option}`).toContain(option);
  }
});

it("names every command that an operator needs", () => {
  const operators = commandGroups.filter(({ title }) => title === "Inspect" || title === "Operate");
  for (const { name } of operators.flatMap(({ commands }) => commands)) {
    expect(page).toContain(`tollgate ${name}`);
  }
});

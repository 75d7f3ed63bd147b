#!/usr/bin/env node
/** The command line: answers on stdout, complaints on stderr. Exit code 2 for a wrong call, 1 for anything else. */
import { readFileSync } from "node:fs";
import { checkConfigCommand } from "./check-config.js";
import { type Command, UsageError } from "./command.js";
import { demoCommand } from "./demo.js";
import { priceCommand } from "./price.js";
import { scriptsCommand } from "./scripts.js";
import { serveCommand } from "./serve.js";

const commands: Command[] = [serveCommand, checkConfigCommand, priceCommand, scriptsCommand, demoCommand];

const help = `Usage: tollgate <command> [options]

${commands.map(({ name, summary }) => `  ${name.padEnd(12)} ${summary}`).join("\n")}

  --help        This text; after a command, the help of that command
  --version     The version

Example:
  tollgate price --method PUT --bytes 1048576
`;

function run(args: string[]): string | Promise<string> {
  const [name, ...rest] = args;
  if (name === undefined) throw new UsageError("a command is missing");
  if (name === "--help" || name === "-h") return help;
  if (name === "--version") return `${version()}\n`;
  const command = commands.find((candidate) => candidate.name === name);
  if (command === undefined) {
    throw new UsageError(`there is no command "${name}"; there are ${commands.map((each) => each.name).join(", ")}`);
  }
  if (rest.includes("--help") || rest.includes("-h")) return command.help;
  return command.run(rest);
}

function version(): string {
  const about: { version: string } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return about.version;
}

try {
  process.stdout.write(await run(process.argv.slice(2)));
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  const command = commands.find(({ name }) => name === process.argv[2]);
  const hint = error instanceof UsageError ? `\nSee tollgate ${command ? `${command.name} ` : ""}--help` : "";
  process.stderr.write(`tollgate: ${message}${hint}\n`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}

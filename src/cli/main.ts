#!/usr/bin/env node
/** The entry point: output to stdout, errors to stderr, and an exit code. */
import { runCommandLine } from "./command-line.js";

// In `tollgate apps | head`, head closes the pipe early. That is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

const { text, exitCode, complaint } = await runCommandLine(process.argv.slice(2));
process.stdout.write(text);
if (complaint !== undefined) process.stderr.write(`tollgate: ${complaint}\n`);
process.exitCode = exitCode;

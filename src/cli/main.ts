#!/usr/bin/env node
/** The entry point: output to stdout, errors to stderr, and an exit code. */
import { runCommandLine } from "./command-line.js";
import { showWaiting } from "./printing.js";

// In `tollgate apps | head`, head closes the pipe early. That is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

const args = process.argv.slice(2);
const endWaiting = showWaiting(args);
const { text, exitCode, complaint } = await runCommandLine(args);
endWaiting();
// Nothing is written for a command without output: even that fails if stdout is a full disk.
if (text !== "") process.stdout.write(text);
if (complaint !== undefined) process.stderr.write(`tollgate: ${complaint}\n`);
process.exitCode = exitCode;

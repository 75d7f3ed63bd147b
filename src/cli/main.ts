#!/usr/bin/env node
/** The program: answers on stdout, complaints on stderr, and an exit code that scripts can use. */
import { runCommandLine } from "./command-line.js";

// `tollgate apps | head` closes the pipe when it has seen enough; that is no mistake.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

const { text, exitCode, complaint } = await runCommandLine(process.argv.slice(2));
process.stdout.write(text);
if (complaint !== undefined) process.stderr.write(`tollgate: ${complaint}\n`);
process.exitCode = exitCode;

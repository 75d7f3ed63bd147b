/** Tools that deploy/test/ensure-tools.sh and ensure-go-tool.sh install into .cache/deploy. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fromRoot } from "../../../build/paths.js";

/** Whether the tools from PyPI are missing; deploy/test/run.sh has printed why. */
export const noTools = process.env.TOLLGATE_NO_TOOLS === "1";

export interface ToolResult {
  status: number;
  /** Standard output and error. */
  output: string;
}

/** Runs a program from the folder of Python tools `set`, in the root of the repository. */
export function pythonTool(set: string, name: string, ...args: string[]): ToolResult {
  const folder = fromRoot(`.cache/deploy/python-${set}`);
  return tool(`${folder}/bin/${name}`, args, { PYTHONPATH: folder });
}

export function helm(...args: string[]): ToolResult {
  return tool(fromRoot(".cache/deploy/helm/bin/helm"), args);
}

/** Undefined if it was not built. */
export function goTool(name: string): ((...args: string[]) => ToolResult) | undefined {
  const path = fromRoot(`.cache/deploy/bin/${name}`);
  return existsSync(path) ? (...args) => tool(path, args) : undefined;
}

export function tool(path: string, args: string[], env: Record<string, string> = {}): ToolResult {
  const { status, stdout, stderr, error } = spawnSync(path, args, {
    cwd: fromRoot("."),
    encoding: "utf8",
    env: { ...process.env, ...env },
    maxBuffer: 64 * 1024 * 1024,
  });
  if (error !== undefined) throw error;
  return { status: status ?? -1, output: stdout + stderr };
}

/** Tools that deploy/test/ensure-tools.sh and ensure-go-tool.sh install into .cache/deploy. */
import { spawnSync } from "node:child_process";
import { fromRoot } from "../../../build/paths.js";

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

/** A program that `make deploy-tools` has built. */
export function goTool(name: string): (...args: string[]) => ToolResult {
  return (...args) => tool(fromRoot(`.cache/deploy/bin/${name}`), args);
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

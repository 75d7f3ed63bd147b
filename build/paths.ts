/** Paths in the repository: absolute for the build, relative in messages and generated files. */
import { relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

export function fromRoot(path: string): string {
  return resolve(root, path);
}

/** The path relative to the repository, with forward slashes. */
export function shown(path: string): string {
  return relative(root, path).split(sep).join("/");
}

/** Where things lie in the repository: absolute paths for the build, relative ones for everything people or files see. */
import { relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

export function fromRoot(path: string): string {
  return resolve(root, path);
}

/** The path below the repository, with forward slashes: generated files and messages name no machine. */
export function shown(path: string): string {
  return relative(root, path).split(sep).join("/");
}

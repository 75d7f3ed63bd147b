/** Whether the system permits a worker as many open files as the rendered configuration asks for. */
import { storedNumber } from "../../core/platform.js";
import { luaString } from "../lua/library.js";
import { io, ngx } from "./ngx.js";
import { nginx } from "./state.js";

/** Of this worker: 0 if it is unknown, or there is no limit. */
export const openFiles = { permitted: 0 };

/**
 * In each worker. nginx itself only logs that it could not raise the limit. With fewer files than connections, idle connections
 * of one client are enough to keep all others out.
 */
export function readOpenFiles(): void {
  const [file] = io.open("/proc/self/limits", "rb");
  if (file === undefined) return;
  const permitted = luaString.match(file.read("*a"), "Max open files%s+(%d+)");
  file.close();
  openFiles.permitted = storedNumber(permitted ?? false, 0);
  if (!areFilesEnough()) {
    const text =
      "tollgate: a worker may open %.0f files, but is configured for %.0f: raise the limit, or render with --open-files";
    ngx.log(ngx.ERR, luaString.format(text, openFiles.permitted, nginx.options.openFiles));
  }
}

export function areFilesEnough(): boolean {
  const { permitted } = openFiles;
  return permitted === 0 || permitted >= nginx.options.openFiles;
}

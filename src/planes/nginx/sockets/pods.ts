/** What nginx reports about the pods that it tried. */
import { splitText } from "../../../core/platform.js";
import { ngx } from "../ngx.js";

/** Value of a variable for the last pod that nginx tried; it lists all of them. Undefined before the first. */
export function ofLastPod(variable: string): string | undefined {
  const listed = ngx.var[variable];
  if (listed === undefined) return undefined;
  const words = splitText(listed, " ");
  return words[words.length - 1];
}

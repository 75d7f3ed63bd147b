/** What rendering a configuration for another proxy comes to. */

export interface RenderedFile {
  name: string;
  text: string;
  /** It holds a secret: for the owner alone. */
  secret: boolean;
}

export interface Rendered {
  files: RenderedFile[];
  /** What the proxy will do otherwise than the Node gateway would, one sentence each. */
  warnings: string[];
}

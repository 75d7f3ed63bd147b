/** The result of rendering a configuration for nginx or Envoy. */

export interface RenderedFile {
  name: string;
  text: string;
  /** Contains a secret: readable by the owner only. */
  secret: boolean;
}

export interface Rendered {
  files: RenderedFile[];
  /** Differences from the behaviour of the Node gateway, one sentence each. */
  warnings: string[];
}

/** The configuration is valid but cannot be rendered for this plane. The message names the option and the reason. */
export class RenderError extends Error {}

/** A configuration that is right, but that this data plane cannot be given: which option, and why. */
export class RenderError extends Error {}

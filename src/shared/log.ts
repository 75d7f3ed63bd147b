/** The log that modules write to: structured fields and a message. */
export interface Log {
  debug(fields: Record<string, unknown>, message: string): void;
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
  /** The same log without the limit of lines per kind, for a module that limits its lines itself. Default: the log itself. */
  readonly unlimited?: Log;
}

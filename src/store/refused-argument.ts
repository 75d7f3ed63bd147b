/** A caller's mistake that a script found before it changed anything. */

export class RefusedArgument extends Error {
  readonly field: string;

  constructor(script: string, field: string) {
    super(`${script}: ${field} is missing, no whole number, negative or too large; nothing was changed`);
    this.name = "RefusedArgument";
    this.field = field;
  }
}

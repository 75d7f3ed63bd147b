/** `tollgate schema`: prints the JSON Schema of the configuration file. */
import { jsonSchema } from "../config/json-schema.js";
import { type Command, flagOption, readOptions } from "./command.js";

const help = `Usage: tollgate schema

Prints the JSON Schema (draft 2020-12) of the configuration file: every option with its range, default and description.
Editors with a YAML language server use it for completion and validation if the file begins with:

  # yaml-language-server: $schema=tollgate.schema.json

Example:
  tollgate schema > tollgate.schema.json
`;

export const command: Command = {
  help,
  run(args) {
    readOptions(args, { json: flagOption });
    return `${JSON.stringify(jsonSchema(), undefined, 2)}\n`;
  },
};

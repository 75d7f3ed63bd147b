/** Names of users that are well-formed: a look at each letter is dearer than one into a table. */

const users: { known: { [name: string]: true | undefined }; count: number } = { known: {}, count: 0 };
const MOST_USERS = 10000;

export function isKnownUser(name: string): boolean {
  return users.known[name] !== undefined;
}

export function rememberUser(name: string): void {
  if (users.count >= MOST_USERS) {
    users.known = {};
    users.count = 0;
  }
  if (users.known[name] === undefined) {
    users.known[name] = true;
    users.count = users.count + 1;
  }
}

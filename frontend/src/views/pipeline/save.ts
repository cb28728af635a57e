/** Hands a text to the browser as a file to keep. */
export function saveText(text: string, name: string): void {
  const address = URL.createObjectURL(new Blob([text]));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

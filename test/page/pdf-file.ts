// PDFs for tests: pages of text in a few objects, and faulty variants.

/** A font that every reader knows. */
const latin = '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>';
/** Chinese, in an encoding that only a table outside the file can decode. */
const chinese = '<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H /DescendantFonts [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light '
  + '/CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 4 >> /FontDescriptor << /Type /FontDescriptor /FontName /STSong-Light /Flags 6 /FontBBox [0 0 1000 1000] '
  + '/ItalicAngle 0 /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 >> >>] >>';
/** No password opens it. */
const lock = `<< /Filter /Standard /V 1 /R 2 /P -4 /O <${'31'.repeat(32)}> /U <${'32'.repeat(32)}> >>`;

/** Bytes of UCS-2, as written in a PDF. */
const hex = (text: string): string => `<${[...text].map((letter) => letter.codePointAt(0)!.toString(16).padStart(4, '0')).join('')}>`;
const escaped = (line: string): string => `(${line.replace(/[\\()]/g, '\\$&')})`;

/** `pages`: the lines of each. With `locked`, it asks for a password. */
export function pdfOf(pages: readonly (readonly string[])[], { locked = false } = {}): Buffer {
  const objects = ['<< /Type /Catalog /Pages 2 0 R /OpenAction << /S /JavaScript /JS (app.alert(1)) >> >>', ''];
  const kids = pages.map((lines) => {
    const drawn = lines.map((line) => (/^[\x20-\x7e]*$/.test(line) ? `/F1 12 Tf ${escaped(line)} Tj` : `/F2 12 Tf ${hex(line)} Tj`));
    const content = lines.length === 0 ? '10 10 m 90 90 l S' : `BT 50 700 Td 14 TL ${drawn.join(' T* ')} ET`;
    objects.push(`<< /Length ${content.length} >>\nstream\n${content}\nendstream`);
    objects.push(`<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents ${objects.length} 0 R /Resources << /Font << /F1 ${latin} /F2 ${chinese} >> >> >>`);
    return `${objects.length} 0 R`;
  });
  objects[1] = `<< /Type /Pages /Count ${kids.length} /Kids [${kids.join(' ')}] >>`;
  let text = '%PDF-1.4\n';
  const places = objects.map((object, at) => {
    const place = text.length;
    text += `${at + 1} 0 obj\n${object}\nendobj\n`;
    return place;
  });
  const table = text.length;
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${places.map((place) => `${String(place).padStart(10, '0')} 00000 n \n`).join('')}`;
  text += `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R ${locked ? `/ID [<00> <00>] /Encrypt ${lock} ` : ''}>>\nstartxref\n${table}\n%%EOF\n`;
  return Buffer.from(text, 'latin1');
}

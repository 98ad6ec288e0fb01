// Reads msgpack values, one after the other: as much of it as traces have.
class Msgpack {
  constructor(buffer) {
    this.view = new DataView(buffer);
    this.at = 0;
    this.text = new TextDecoder();
  }

  get isAtEnd() { return this.at >= this.view.byteLength; }

  // Throws RangeError at the end of a truncated file.
  next() {
    const first = this.byte();
    if (first < 0x80) return first;
    if (first < 0x90) return this.map(first & 15);
    if (first < 0xa0) return this.array(first & 15);
    if (first < 0xc0) return this.string(first & 31);
    if (first >= 0xe0) return first - 256;
    switch (first) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xd9: return this.string(this.byte());
      case 0xc5: case 0xda: return this.string(this.take(2, "getUint16"));
      case 0xc6: case 0xdb: return this.string(this.take(4, "getUint32"));
      case 0xca: return this.take(4, "getFloat32");
      case 0xcb: return this.take(8, "getFloat64");
      case 0xcc: return this.byte();
      case 0xcd: return this.take(2, "getUint16");
      case 0xce: return this.take(4, "getUint32");
      case 0xcf: return Number(this.take(8, "getBigUint64"));
      case 0xd0: return this.take(1, "getInt8");
      case 0xd1: return this.take(2, "getInt16");
      case 0xd2: return this.take(4, "getInt32");
      case 0xd3: return Number(this.take(8, "getBigInt64"));
      case 0xdc: return this.array(this.take(2, "getUint16"));
      case 0xdd: return this.array(this.take(4, "getUint32"));
      case 0xde: return this.map(this.take(2, "getUint16"));
      case 0xdf: return this.map(this.take(4, "getUint32"));
      default: throw new SyntaxError(`byte ${this.at - 1}: 0x${first.toString(16)} begins no value of a trace`);
    }
  }

  byte() { return this.take(1, "getUint8"); }

  take(size, getter) {
    const value = this.view[getter](this.at);
    this.at += size;
    return value;
  }

  string(size) {
    if (this.at + size > this.view.byteLength) throw new RangeError("truncated");
    const value = this.text.decode(new Uint8Array(this.view.buffer, this.at, size));
    this.at += size;
    return value;
  }

  array(size) {
    const values = [];
    for (let index = 0; index < size; index += 1) values.push(this.next());
    return values;
  }

  map(size) {
    const values = Object.create(null);
    for (let index = 0; index < size; index += 1) {
      const key = this.next();
      values[key] = this.next();
    }
    return values;
  }
}

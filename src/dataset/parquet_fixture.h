// Parquet files for tests that no writer would write: all leaves are optional texts and share one chunk of pages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::dataset::test {

// The few types of Thrift's compact protocol that a footer needs.
class ThriftWriter {
 public:
  ThriftWriter& number(int id, int64_t value) {
    head(id, 6);
    varint(static_cast<uint64_t>(value) << 1);  // zigzag; REQUIRES: value >= 0
    return *this;
  }
  ThriftWriter& text(int id, std::string_view value) {
    head(id, 8);
    varint(value.size());
    out_ += value;
    return *this;
  }
  ThriftWriter& structure(int id, const std::string& fields) {
    head(id, 12);
    out_ += fields;
    return *this;
  }
  ThriftWriter& structures(int id, const std::vector<std::string>& elements) {
    head(id, 9);
    out_ += static_cast<char>(0xFC);
    varint(elements.size());
    for (const std::string& element : elements) out_ += element;
    return *this;
  }
  // The struct whose fields were written.
  std::string done() const { return out_ + '\0'; }

  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  const std::string& bytes() const { return out_; }

 private:
  void head(int id, int type) {
    out_ += static_cast<char>((id - last_) << 4 | type);
    last_ = id;
  }
  std::string out_;
  int last_ = 0;
};

inline std::string little_endian(size_t number) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

struct ParquetField {
  std::string name;
  int64_t children = 0;  // 0: a leaf; else a required group, whose fields follow
};

inline std::string parquet_page(int64_t type, int header_id, int64_t values, const std::string& bytes) {
  constexpr int64_t kPlain = 0, kRle = 3;
  ThriftWriter inner, page;
  inner.number(1, values).number(2, kPlain);
  if (header_id == 5) inner.number(3, kRle).number(4, kRle);
  auto size = static_cast<int64_t>(bytes.size());
  return page.number(1, type).number(2, size).number(3, size).structure(header_id, inner.done()).done() + bytes;
}

// One run of `rows` nulls: a few bytes.
inline std::string page_of_nulls(int64_t rows) {
  ThriftWriter run;
  run.varint(static_cast<uint64_t>(rows) << 1);
  std::string levels = run.bytes() + '\0';
  return parquet_page(0, 5, rows, little_endian(levels.size()) + levels);
}

// `values` empty texts.
inline std::string dictionary_page(int64_t values) { return parquet_page(2, 7, values, std::string(static_cast<size_t>(values) * 4, '\0')); }

// `fields` as the schema lists them, `columns` of them at the top.
inline std::string parquet_file(const std::vector<ParquetField>& fields, int64_t columns, const std::string& pages, int64_t rows,
                                bool has_dictionary = false) {
  std::vector<std::string> schema = {ThriftWriter().text(4, "root").number(5, columns).done()}, chunks;
  auto size = static_cast<int64_t>(pages.size());
  for (const ParquetField& field : fields) {
    ThriftWriter element, meta, chunk;
    if (field.children > 0) {
      schema.push_back(element.number(3, 0).text(4, field.name).number(5, field.children).done());
      continue;
    }
    schema.push_back(element.number(1, 6).number(3, 1).text(4, field.name).number(6, 0).done());
    meta.number(1, 6).number(4, 0).number(5, rows).number(7, size).number(9, has_dictionary ? 5 : 4);
    if (has_dictionary) meta.number(11, 4);
    chunks.push_back(chunk.number(2, 0).structure(3, meta.done()).done());
  }
  std::string group = ThriftWriter().structures(1, chunks).number(2, size).number(3, rows).done();
  std::string footer = ThriftWriter().number(1, 1).structures(2, schema).number(3, rows).structures(4, {group}).done();
  return "PAR1" + pages + footer + little_endian(footer.size()) + "PAR1";
}

}  // namespace cairn::dataset::test

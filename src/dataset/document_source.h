// The documents of text files (one document a file), JSONL (one object a line, its text under a key) and Parquet (one row each), in
// an order that depends on the inputs alone: inputs as given, folders walked in the byte order of their paths, files as they are.
//
// A DocumentSource hands out blocks of some 4 MiB, so that one thread can read while many parse and encode: `next` is cheap for
// text and JSONL, `documents_of` does the parsing of JSONL and may be called for different blocks on different threads. Memory is
// bounded by the longest document or line (kDocumentBytesMax; limit_exceeded names file and line). A DocumentSource is not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::dataset {

inline constexpr size_t kDocumentBytesMax = 256u * 1024 * 1024;

struct DocumentSourceOptions {
  // Files (.txt, .text, .md; .jsonl, .ndjson, .json with one object a line; .parquet) and folders, in which files with these
  // endings are taken; others, and names that begin with '.', are passed over. A file given by name with another ending is read as
  // text. A byte order mark at the start of text or JSONL is passed over. Links inside folders are refused (data_invalid).
  std::vector<std::string> inputs;
  std::string text_key = "text";  // of JSONL objects and Parquet rows
};

// Inputs that gave no document.
struct PassedOver {
  static constexpr size_t kNamedMax = 5;
  uint64_t other = 0;  // entries of folders that are no documents by their name
  uint64_t empty = 0;  // files of no bytes
  std::vector<std::string> first;  // kNamedMax of them

  // "2 inputs were passed over (2 empty): a, b"; empty when there are none.
  std::string text() const;
};

// A run of documents as they stand in one file.
struct DocumentBlock {
  std::string file;
  uint64_t first = 1;            // line or row of its first document, from 1
  bool json_lines = false;
  std::string bytes;             // whole lines of JSONL, or texts back to back
  std::vector<size_t> text_ends;  // of each text in `bytes`; unused for JSONL
  uint64_t read_bytes = 0;       // of input, for progress
};

class DocumentSource {
 public:
  // Lists the inputs. data_missing_on_volume names an absent one; data_invalid when there is no file to read.
  static Result<std::unique_ptr<DocumentSource>> open(DocumentSourceOptions options);
  virtual ~DocumentSource() = default;

  // The next block; false at the end.
  virtual Result<bool> next(DocumentBlock& block) = 0;
  virtual size_t file_count() const = 0;
  virtual uint64_t total_bytes() const = 0;  // of all files as they are stored
  virtual const PassedOver& passed_over() const = 0;
};

// Calls `take` with each document of a block in order, as its bytes are (JSONL: unescaped). The view is valid during the call.
// data_invalid names file and line where a line is no object or has no string under `text_key`; empty lines, and texts that are
// empty or null, are passed over. In JSONL bytes that are no UTF-8 become U+FFFD.
Status documents_of(const DocumentBlock& block, const std::string& text_key,
                    const std::function<Status(std::string_view text)>& take);

}  // namespace cairn::dataset

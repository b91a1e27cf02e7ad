// Reads handoff messages of pagestamp, version 1, by the tables in the documentation of `pagestamp::handoff::wire`.
//
// C++17, nothing but the standard library; the host may be of either byte order. `read` throws `Refused` for whatever is no
// message; no length is believed before the bytes that bear it out were seen. What a model means to a page (whether its
// rows fill whole bytes, how large a page becomes) is not checked here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace pagestamp_wire {

constexpr std::size_t header_bytes = 16;
constexpr std::size_t max_message_bytes = std::size_t{64} << 20;

struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Transfer {
    std::uint64_t sequence;
    std::uint32_t pool, nonce;
};

struct Page {
    std::uint32_t index, pool;
    std::uint64_t generation;
    std::uint32_t nonce;
};

struct Range {
    std::uint32_t first, end;
};

struct Slice {
    Range layers, heads;
};

// `block_elements` and `scale_dtype` are 0 without scales.
struct Format {
    std::uint32_t dtype, block_elements, scale_dtype;
};

struct Heads {
    std::uint32_t kv_heads, key_dim, value_dim;
    Format key_format, value_format;
    std::uint32_t order, interleave;
};

// `indexer_dim` and `indexer_format` are 0 without an indexer.
struct Latent {
    std::uint32_t latent_dim, rope_dim;
    Format latent_format;
    std::uint32_t rope_dtype, packing, indexer_dim;
    Format indexer_format;
};

struct Model {
    std::string name, revision;
    std::uint32_t page_tokens, layers, layer_planes;
    std::variant<Heads, Latent> cache;
};

struct Writer {
    std::uint64_t holder;
    Slice slice;
};

struct Part {
    std::uint32_t group;
    Slice slice;
    Range pages, planes;
    std::vector<std::array<std::uint8_t, 16>> digests;
};

struct Offer {
    Transfer transfer;
    std::uint64_t owner, tokens, held_tokens;
    std::uint32_t checksum, batch_pages;
    Slice slice;
    Model model;
    std::vector<Writer> writers;
    std::vector<Page> destinations;
};

struct Receipt {
    Transfer transfer;
    std::uint64_t owner, tokens, held_tokens, writer;
    std::uint32_t pages, last_page_tokens, checksum;
    Model model;
    std::vector<Part> parts;
};

struct Refusal {
    Transfer transfer;
    std::uint32_t side;
    std::string reason;
};

using Message = std::variant<Offer, Receipt, Refusal>;

// Members of a braced list are read from left to right, which is the order of the bytes.
class Reader {
  public:
    Reader(const std::uint8_t* bytes, std::size_t count) : at_(bytes), left_(count) {}

    Message message() {
        demand(number(4) == 0x74736770, "no message");
        demand(number(2) == 1, "another version");
        const auto kind = number(1);
        demand(number(1) == 0, "reserved bits");
        const auto body_bytes = number(4);
        demand(body_bytes <= max_message_bytes - header_bytes, "too large");
        demand(number(4) == 0, "reserved bits");
        demand(body_bytes == left_, "not one whole message");
        Message message = body(kind);
        demand(left_ == 0, "bytes after the end");
        return message;
    }

  private:
    static void demand(bool holds, const char* why) {
        if (!holds) throw Refused(why);
    }

    const std::uint8_t* take(std::size_t count) {
        demand(count <= left_, "cut short");
        const auto* taken = at_;
        at_ += count;
        left_ -= count;
        return taken;
    }

    std::uint64_t number(std::size_t bytes) {
        const auto* taken = take(bytes);
        std::uint64_t number = 0;
        for (std::size_t n = bytes; n-- > 0;) number = number << 8 | taken[n];
        return number;
    }

    std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }

    std::uint64_t non_zero(std::size_t bytes) {
        const auto found = number(bytes);
        demand(found != 0, "0 where none may be");
        return found;
    }

    std::uint32_t non_zero() { return static_cast<std::uint32_t>(non_zero(4)); }

    std::uint32_t code(std::uint32_t least, std::uint32_t most) {
        const auto code = u32();
        demand(code >= least && code <= most, "unknown code");
        return code;
    }

    Range range(std::uint32_t least) {
        const Range range{u32(), u32()};
        demand(range.end >= range.first && range.end - range.first >= least, "range");
        return range;
    }

    std::string text(std::size_t least, std::size_t most) {
        const std::size_t count = u32();
        demand(count >= least && count <= most, "length of text");
        const auto* taken = take(count);
        demand(is_utf8(taken, count), "text that is not UTF-8");
        return std::string(reinterpret_cast<const char*>(taken), count);
    }

    // No overlong forms, no surrogates, nothing past U+10FFFF.
    static bool is_utf8(const std::uint8_t* text, std::size_t count) {
        for (std::size_t at = 0; at < count;) {
            const std::uint8_t lead = text[at++];
            if (lead < 0x80) continue;
            const std::size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
            if (lead < 0xc2 || lead > 0xf4 || count - at < more) return false;
            const std::uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
            const std::uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
            if (text[at] < low || text[at] > high) return false;
            for (std::size_t n = 1; n < more; ++n)
                if ((text[at + n] & 0xc0) != 0x80) return false;
            at += more;
        }
        return true;
    }

    template <typename Item>
    auto list(std::size_t item_bytes, Item item) {
        const std::size_t count = u32();
        demand(count <= left_ / item_bytes, "more items than bytes");
        std::vector<decltype(item())> items;
        items.reserve(count);
        for (std::size_t n = 0; n < count; ++n) items.push_back(item());
        return items;
    }

    Message body(std::uint64_t kind) {
        switch (kind) {
            case 1:
                return Offer{transfer(), non_zero(8), number(8), number(8), code(0, 3), non_zero(), slice(), model(),
                             list(24, [this] { return Writer{number(8), slice()}; }), list(16, [this] { return page(); })};
            case 2:
                return Receipt{transfer(), non_zero(8), number(8), number(8), number(8), u32(), u32(), code(0, 3), model(),
                               list(40, [this] { return part(); })};
            case 3: return Refusal{transfer(), code(1, 2), text(0, 1024)};
            default: throw Refused("unknown kind");
        }
    }

    Transfer transfer() {
        const Transfer transfer{non_zero(8), non_zero(), static_cast<std::uint32_t>(number(3))};
        demand(number(1) == 0, "reserved bits");
        return transfer;
    }

    Page page() { return Page{u32(), non_zero(), number(5), static_cast<std::uint32_t>(number(3))}; }

    Slice slice() { return Slice{range(1), range(1)}; }

    Part part() {
        return Part{u32(), slice(), range(0), range(0), list(16, [this] {
                        std::array<std::uint8_t, 16> digest;
                        const auto* taken = take(digest.size());
                        for (auto& byte : digest) byte = *taken++;
                        return digest;
                    })};
    }

    Model model() {
        Model model{text(1, 256), text(1, 256), non_zero(), non_zero(), code(1, 2), {}};
        demand(model.page_tokens <= 32767, "page_tokens");
        if (code(1, 2) == 1) {
            model.cache = Heads{non_zero(), non_zero(), non_zero(), format(), format(), code(1, 2), code(1, 2)};
        } else {
            Latent latent{non_zero(), non_zero(), format(), code(1, 10), code(1, 2), u32(), {}};
            latent.indexer_format = latent.indexer_dim != 0 ? format() : Format{code(0, 0), code(0, 0), code(0, 0)};
            model.cache = latent;
        }
        return model;
    }

    Format format() {
        Format format{code(1, 10), u32(), 0};
        format.scale_dtype = format.block_elements != 0 ? code(1, 5) : code(0, 0);
        return format;
    }

    const std::uint8_t* at_;
    std::size_t left_;
};

inline Message read(const std::uint8_t* bytes, std::size_t count) { return Reader(bytes, count).message(); }

}  // namespace pagestamp_wire

// Prints each message named on the command line as one line of JSON, and null for what is none.
#include "reader.hpp"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <type_traits>

using namespace pagestamp_wire;

namespace {

std::string text(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += {'\\', c};
        } else if (byte < 0x20) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
            out += escaped;
        } else {
            out += c;
        }
    }
    return out + '"';
}

std::string hex(const std::array<std::uint8_t, 16>& bytes) {
    std::string out;
    for (const auto byte : bytes) {
        out += "0123456789abcdef"[byte >> 4];
        out += "0123456789abcdef"[byte & 15];
    }
    return text(out);
}

// One field of an object, after a comma; `object` takes off the first.
template <typename Value>
std::string field(const char* name, const Value& value) {
    if constexpr (std::is_integral_v<Value>) {
        return std::string(",\"") + name + "\":" + std::to_string(value);
    } else {
        return std::string(",\"") + name + "\":" + value;
    }
}

std::string object(const std::string& fields) { return "{" + fields.substr(1) + "}"; }

template <typename Item, typename Show>
std::string list(const std::vector<Item>& items, Show show) {
    std::string out;
    for (const auto& item : items) out += "," + show(item);
    return out.empty() ? "[]" : "[" + out.substr(1) + "]";
}

std::string json(const Range& range) { return "[" + std::to_string(range.first) + "," + std::to_string(range.end) + "]"; }

std::string json(const Slice& slice) { return object(field("layers", json(slice.layers)) + field("heads", json(slice.heads))); }

std::string json(const Format& format) {
    return "[" + std::to_string(format.dtype) + "," + std::to_string(format.block_elements) + "," +
           std::to_string(format.scale_dtype) + "]";
}

std::string json(const Transfer& transfer) {
    return object(field("sequence", transfer.sequence) + field("pool", transfer.pool) + field("nonce", transfer.nonce));
}

std::string json(const Writer& writer) { return object(field("holder", writer.holder) + field("slice", json(writer.slice))); }

std::string json(const Page& page) {
    return object(field("index", page.index) + field("pool", page.pool) + field("generation", page.generation) +
                  field("nonce", page.nonce));
}

std::string json(const Part& part) {
    return object(field("group", part.group) + field("slice", json(part.slice)) + field("pages", json(part.pages)) +
                  field("planes", json(part.planes)) + field("digests", list(part.digests, hex)));
}

std::string fields(const Heads& cache) {
    return field("cache", 1) + field("kv_heads", cache.kv_heads) + field("key_dim", cache.key_dim) +
           field("value_dim", cache.value_dim) + field("key_format", json(cache.key_format)) +
           field("value_format", json(cache.value_format)) + field("order", cache.order) +
           field("interleave", cache.interleave);
}

std::string fields(const Latent& cache) {
    return field("cache", 2) + field("latent_dim", cache.latent_dim) + field("rope_dim", cache.rope_dim) +
           field("latent_format", json(cache.latent_format)) + field("rope_dtype", cache.rope_dtype) +
           field("packing", cache.packing) + field("indexer_dim", cache.indexer_dim) +
           field("indexer_format", json(cache.indexer_format));
}

std::string json(const Model& model) {
    return object(field("name", text(model.name)) + field("revision", text(model.revision)) +
                  field("page_tokens", model.page_tokens) + field("layers", model.layers) +
                  field("layer_planes", model.layer_planes) +
                  std::visit([](const auto& cache) { return fields(cache); }, model.cache));
}

std::string json(const Offer& offer) {
    return object(field("kind", 1) + field("transfer", json(offer.transfer)) + field("owner", offer.owner) +
                  field("tokens", offer.tokens) + field("held_tokens", offer.held_tokens) +
                  field("checksum", offer.checksum) + field("batch_pages", offer.batch_pages) +
                  field("slice", json(offer.slice)) + field("model", json(offer.model)) +
                  field("writers", list(offer.writers, [](const Writer& one) { return json(one); })) +
                  field("destinations", list(offer.destinations, [](const Page& one) { return json(one); })));
}

std::string json(const Receipt& receipt) {
    return object(field("kind", 2) + field("transfer", json(receipt.transfer)) + field("owner", receipt.owner) +
                  field("tokens", receipt.tokens) + field("held_tokens", receipt.held_tokens) +
                  field("writer", receipt.writer) + field("pages", receipt.pages) +
                  field("last_page_tokens", receipt.last_page_tokens) + field("checksum", receipt.checksum) +
                  field("model", json(receipt.model)) +
                  field("parts", list(receipt.parts, [](const Part& one) { return json(one); })));
}

std::string json(const Refusal& refusal) {
    return object(field("kind", 3) + field("transfer", json(refusal.transfer)) + field("side", refusal.side) +
                  field("reason", text(refusal.reason)));
}

}  // namespace

int main(int count, char** paths) {
    for (int n = 1; n < count; ++n) {
        std::ifstream file(paths[n], std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        try {
            const auto message = read(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
            std::cout << std::visit([](const auto& one) { return json(one); }, message) << '\n';
        } catch (const Refused&) {
            std::cout << "null\n";
        }
    }
}

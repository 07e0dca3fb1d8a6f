// Messages to bytes, bytes to messages, messages to text: all three walk the one list of fields that a message has.
// Pure functions. What is decoded comes from a peer and is untrusted: lengths are compared with the bytes that are
// left before anything is allocated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "proto-free-wire/message.h"

namespace dtrain::wire {

// Every message type, in the order of their ids.
const std::vector<MessageType>& message_types();
MessageType type_of(const Message& message);
// "Offer"; "message 99" for an id that no message has.
std::string name_of(MessageType type);
// Tensor bytes may follow this message.
bool takes_payload(MessageType type);
// A message of this type with its fields at their defaults; an id that no message has is an error.
Result<Message> make_default(MessageType type);

// Appends the fields' bytes to `out`.
void encode(const Message& message, std::vector<std::byte>& out);
std::vector<std::byte> encode(const Message& message);

// The exact inverse: unknown type, bytes missing or left over, a bool or an enum out of range are errors (kPeerLost)
// that name the message and the field.
Result<Message> decode(MessageType type, ByteSpan bytes);

// "Offer{step=3, block=2, first=0, last=4}". Text from a peer is quoted and escaped, long lists are cut.
std::string print(const Message& message);

}  // namespace dtrain::wire
